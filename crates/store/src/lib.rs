//! Placeholder replaced by the room's own code.
