"""The packages that the corpus is made of.

Chosen for much text in few megabytes. Names that a release lacks are skipped and said, so those of
several releases can stand here: `a-{2,1}` is the first of `a-2` and `a-1` that exists. Ubuntu keeps
most message catalogues in its language packs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Packages of one origin; both languages of a manual must be in the same source.

    Attributes:
        name: Short name, used in the output.
        title: What it is.
        licence: The usual terms; the packages' own files, kept with the corpus, are what counts.
        packages: Names of packages, separated by white space.
    """

    name: str
    title: str
    licence: str
    packages: str


_WESNOTH = "wesnoth-{1.20,1.18,1.16,1.14,1.12}-"
_CAMPAIGNS = "data did dm dw ei httt l low nr sof sota sotbe thot trow tsg ttb utbs"

SOURCES = (
    Source(
        "libreoffice",
        "LibreOffice help and messages",
        "MPL-2.0, parts Apache-2.0",
        "libreoffice-help-en-us libreoffice-help-de libreoffice-l10n-de",
    ),
    Source(
        "gimp",
        "GIMP manual and messages",
        "GFDL-1.2+; messages GPL-3+",
        "gimp-help-en gimp-help-de {gimp-data,libgimp-3.0-0}",
    ),
    Source(
        "kde",
        "KDE handbooks and messages",
        "GFDL-1.2+; messages GPL-2+ or LGPL-2.1+",
        "{kdoctools5,kdoctools6,kdoctools-dev} akregator ark calligra-data calligraplan cantor "
        "cervisia dolphin drkonqi gwenview juk kaddressbook kalarm kalgebra-common "
        "{kate5-data,kate-data} kbackup kbibtex-data kblackbox kcachegrind kcalc "
        "kde-cli-tools-data kde-spectacle kdepim-addons kdepim-runtime kdiff3-doc "
        "kexi-data kfind kget kgoldrunner kgpg khelpcenter kig kile-doc killbots kinfocenter kio "
        "kio-audiocd kio-extras-data kiriki kiten kjumpingcube kleopatra kmahjongg kmail kmenuedit "
        "kmouth kmplot kmymoney-common knights kolf kolourpaint kompare konqueror konsole kontact "
        "konversation-data korganizer kpat krdc krusader kshisen ksirk kspaceduel ksquares ksudoku "
        "ksystemlog ktimetracker ktorrent-data ktouch-data kturtle kubrick kwalletmanager kwave "
        "kwin-data kwordquiz lokalize okteta okular palapeli-data parley-data partitionmanager "
        "plasma-desktop-data plasma-nm rocs step tellico-data tellico-doc yakuake "
        "language-pack-kde-de-base",
    ),
    Source(
        "gnome",
        "GNOME and MATE help and messages",
        "CC BY-SA 3.0 or GFDL-1.1+; messages GPL-2+",
        "accerciser aisleriot atril-common baobab brasero-common caja-common cheese-common "
        "deja-dup devhelp-common dia-common engrampa-common eog eom-common epiphany-browser-data "
        "evince-common evolution-common file-roller five-or-more four-in-a-row gedit-common "
        "genius-common ghex glade gnome-applets-data gnome-boxes gnome-builder gnome-calculator "
        "gnome-chess gnome-clocks gnome-color-manager gnome-control-center-data gnome-devel-docs "
        "gnome-dictionary gnome-disk-utility gnome-flashback-common gnome-mahjongg gnome-mines "
        "gnome-music gnome-nibbles gnome-panel-data gnome-robots gnome-sudoku gnome-system-monitor "
        "gnome-terminal-data gnome-tetravex gnome-user-docs gnote gthumb-data "
        "gucharmap iagno lightsoff marco-common mate-applets-common mate-calc-common "
        "mate-control-center-common mate-panel-common mate-system-monitor-common "
        "mate-terminal-common mate-user-guide mate-utils-common metacity-common nautilus-data orca "
        "planner-data polari quadrapassel rhythmbox-data seahorse shotwell-common simple-scan "
        "sound-juicer swell-foop tali totem-common vinagre zenity-common "
        "language-pack-gnome-de-base",
    ),
    Source(
        "debian",
        "Manuals of Debian: reference, handbook, installation, FAQ, guides for developers",
        "GPL-2+, parts Expat, CC BY-SA 3.0 or Debian's own terms",
        "debian-reference-en debian-reference-de debian-handbook developers-reference "
        "developers-reference-de maint-guide maint-guide-de debmake-doc debian-faq debian-faq-de "
        "debian-edu-doc-en debian-edu-doc-de live-manual-html apt-doc harden-doc "
        "installation-guide-{amd64,arm64,i386}",
    ),
    Source(
        "lilypond",
        "Manuals of LilyPond",
        "GFDL-1.3+",
        "lilypond-doc-html lilypond-doc-html-de",
    ),
    Source(
        "wesnoth",
        "The Battle for Wesnoth: campaigns, units, help",
        "GPL-2+",
        " ".join(_WESNOTH + part for part in _CAMPAIGNS.split()),
    ),
    Source("freeciv", "Freeciv: help, nations, messages", "GPL-2+", "freeciv-data"),
    Source(
        "programs",
        "Messages of other programs",
        "that of each program, mostly GPL-2+",
        "amule-common apt aptitude-common ardour-data audacity-data blender-data claws-mail-i18n "
        "colobot coreutils darktable digikam-data dpkg filezilla-common fontforge-common "
        "fontforge-doc gettext git gnucash-common gnupg-l10n gramps grisbi-common homebank-data "
        "hugin-data inkscape libc-l10n lyx-common mc-data minetest-data mutt pidgin-data "
        "postgresql-client-{17,16,15,14,13} subversion synaptic tuxpaint-config util-linux-locales "
        "vlc-l10n xsane-common zim language-pack-de-base",
    ),
)
