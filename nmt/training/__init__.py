"""The Lightning side: module, loss, schedules, callbacks."""
