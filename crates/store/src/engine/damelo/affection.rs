//! Which groups are loved, where nobody says so: by hysteresis (section 3). Two creates in a row love a group; once others
//! are used and it is not, it is hated.

use super::options::Affection;
use super::state::{Inner, State};

/// A group is quiet when so many times as many uses as there are groups went elsewhere.
const QUIET: u64 = 16;

impl Inner {
    /// A group is used: read from, or created in.
    pub(super) fn note_use(&self, state: &mut State, group: u32, creates: bool) {
        if self.options.affection == Affection::Told {
            return;
        }
        state.uses += 1;
        let (uses, groups) = (state.uses, state.groups.len() as u64);
        let twice = creates && state.last_created == Some(group);
        if creates {
            state.last_created = Some(group);
        }
        if let Some(group) = state.group(group) {
            group.used = uses;
            group.loved |= twice;
        }
        // One group is looked at for each use, so that all are before long.
        let quiet = |used: u64| uses - used > QUIET * groups;
        if let Some(group) = state.group((uses % groups.max(1)) as u32).filter(|group| quiet(group.used)) {
            group.loved = false;
        }
    }
}
