//! How a disk is cut into groups, and what a place means there.
//!
//! Each group has two areas for its checkpoints and, behind them, its frames. Groups are numbered from 0. The first ones have
//! frames of the size that was asked for. The last ones have frames of 256 KiB, for what fits no frame of the others (section
//! 6: several page sizes). Group 0 lies in the middle of the disk, the next to its right, the next to its left, and so on
//! (Figure 2): a head that goes to and fro passes the middle most often, and the large frames lie at the rim, where a disk
//! is fastest.

use super::limits::{FEWEST_FRAMES, LARGE_FRAME_BYTES, LEAST_FRAMES};
use super::{journal, page};
use crate::layout::take::{take_u32, take_u64};
use crate::memory::aligned::{ALIGN, round_down, round_up};
use crate::terms::{DISK_SHIFT, Place};

/// What a new disk is to be cut like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Groups of ordinary frames. A disk too small for so many of 16 frames each gets fewer.
    pub groups: u32,
    /// Bytes of an ordinary frame: a power of two, 16 KiB to 256 KiB.
    pub frame_bytes: u32,
    /// Percentage of the disk that has frames of 256 KiB; 0 for none.
    pub large_percent: u32,
    /// Whether groups are placed from the middle of the disk outwards, or one behind the other.
    pub centre: bool,
}

/// Groups that are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// How many there are.
    pub groups: u32,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Frames of each group.
    pub frames: u32,
    /// The most objects that a group may hold.
    pub objects: u32,
    /// Bytes of each of a group's two areas for checkpoints.
    pub area_bytes: u64,
}

impl Class {
    /// So many bytes as at most so many groups. `None` if there is not room for one.
    fn plan(bytes: u64, groups: u32, frame_bytes: u32, mean_object_bytes: u64) -> Option<Class> {
        let frame = u64::from(frame_bytes);
        let fitting = bytes / (frame * u64::from(LEAST_FRAMES + 2));
        let groups = u64::from(groups).min(fitting.max(1));
        let group_bytes = round_down(bytes / groups, ALIGN as u64);
        let mut frames = u32::try_from(group_bytes / frame).ok()?;
        loop {
            let class = Class::of(groups as u32, frame_bytes, frames, mean_object_bytes);
            if class.group_bytes() <= group_bytes {
                return (frames >= FEWEST_FRAMES).then_some(class);
            }
            let over = (class.group_bytes() - group_bytes).div_ceil(frame + frame / 16);
            // A checkpoint of very small objects may take more than the frame that holds them: not too far at once.
            frames = frames.checked_sub((over.max(1) as u32).min((frames / 8).max(1)))?;
        }
    }

    fn of(groups: u32, frame_bytes: u32, frames: u32, mean_object_bytes: u64) -> Class {
        let all = u64::from(frames) * u64::from(frame_bytes);
        let slots = u64::from(frames) * u64::from(page::most_slots(frame_bytes));
        let objects =
            (all / mean_object_bytes.max(64) * 5 / 4).max(u64::from(frames) * 4).min(slots).min(1 << 28) as u32;
        let area_bytes = journal::area_bytes(frames, objects);
        Class { groups, frame_bytes, frames, objects, area_bytes }
    }

    /// What one group takes of the disk.
    pub fn group_bytes(&self) -> u64 {
        2 * self.area_bytes + u64::from(self.frames) * u64::from(self.frame_bytes)
    }

    /// The longest record that fits a page.
    pub fn max_record_bytes(&self) -> usize {
        page::room(self.frame_bytes as usize)
    }
}

/// How a disk is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DameloLayout {
    /// Where it begins.
    pub base: u64,
    /// The mean object size that it was cut for.
    pub mean_object_bytes: u64,
    /// The first groups.
    pub ordinary: Class,
    /// The last ones, with large frames; none if it has no groups.
    pub large: Class,
    /// Whether the first groups lie in the middle.
    pub centre: bool,
    /// What was asked for: groups, and the percentage with large frames.
    pub asked: (u32, u32),
}

/// A page: which group's, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The group.
    pub group: u32,
    /// The page.
    pub page: u32,
}

/// A record by its place: which slot of a page, in which of the page's lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The page.
    pub at: At,
    /// The slot of it. No slot is used twice in one life.
    pub slot: u16,
    /// How often the page was begun.
    pub life: u64,
}

impl DameloLayout {
    /// Cut a disk of `bytes`, of which the first `reserved` are taken. `None` if it is too small.
    pub fn plan(bytes: u64, reserved: u64, mean_object_bytes: u64, shape: &Shape) -> Option<Self> {
        let base = round_up(reserved, ALIGN as u64);
        let all = bytes.checked_sub(base)?;
        // A disk too small for large frames has none.
        let wanted = all / 100 * u64::from(shape.large_percent);
        let for_large = if wanted > u64::from((FEWEST_FRAMES + 1) * LARGE_FRAME_BYTES) { wanted } else { 0 };
        let mean_large = u64::from(LARGE_FRAME_BYTES / 4).max(mean_object_bytes);
        let large = match for_large {
            0 => Class::default(),
            // As many groups as others would be too many: what lies there is read in long runs anyway.
            _ => Class::plan(for_large, shape.groups.div_ceil(4), LARGE_FRAME_BYTES, mean_large)?,
        };
        let ordinary = Class::plan(all - for_large, shape.groups, shape.frame_bytes, mean_object_bytes)?;
        let asked = (shape.groups, shape.large_percent);
        let layout = DameloLayout { base, mean_object_bytes, ordinary, large, centre: shape.centre, asked };
        layout.is_sane(bytes).then_some(layout)
    }

    fn is_sane(&self, bytes: u64) -> bool {
        let class_fits = |class: &Class| {
            let frame = class.frame_bytes;
            frame.is_power_of_two()
                && (super::limits::LEAST_FRAME_BYTES..=LARGE_FRAME_BYTES).contains(&frame)
                && (1..=1 << 16).contains(&class.groups)
                && (1..=1 << 28).contains(&class.frames)
                && (1..=1 << 28).contains(&class.objects)
                && class.area_bytes.is_multiple_of(ALIGN as u64)
                && (journal::area_bytes(class.frames, class.objects)..=1 << 40).contains(&class.area_bytes)
        };
        let fits = class_fits(&self.ordinary) && (self.large.groups == 0 || class_fits(&self.large));
        fits && self.base.is_multiple_of(ALIGN as u64) && self.end() <= bytes && self.life_bits() >= 16
    }

    /// The numbers as the superblock has them.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        [self.base, self.mean_object_bytes, u64::from(self.centre)]
            .iter()
            .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        for Class { groups, frame_bytes, frames, objects, area_bytes } in [self.ordinary, self.large] {
            [groups, frame_bytes, frames, objects].iter().for_each(|n| bytes.extend_from_slice(&n.to_le_bytes()));
            bytes.extend_from_slice(&area_bytes.to_le_bytes());
        }
        [self.asked.0, self.asked.1].iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes
    }

    /// The numbers, without a look at whether they fit each other.
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let (base, mean_object_bytes, centre) = (take_u64(rest)?, take_u64(rest)?, take_u64(rest)? == 1);
        let mut class = || {
            let (groups, frame_bytes, frames) = (take_u32(rest)?, take_u32(rest)?, take_u32(rest)?);
            Some(Class { groups, frame_bytes, frames, objects: take_u32(rest)?, area_bytes: take_u64(rest)? })
        };
        let (ordinary, large) = (class()?, class()?);
        let asked = (take_u32(rest)?, take_u32(rest)?);
        Some(DameloLayout { base, mean_object_bytes, ordinary, large, centre, asked })
    }

    /// The numbers of a disk of so many bytes. `None` for numbers out of range: that is damage, whatever a checksum says.
    pub fn decode(section: &[u8], disk_bytes: u64) -> Option<Self> {
        Self::read(section).filter(|layout| layout.is_sane(disk_bytes))
    }

    /// Where it ends on the disk.
    pub fn end(&self) -> u64 {
        let of = |class: &Class| u64::from(class.groups).saturating_mul(class.group_bytes());
        self.base.saturating_add(of(&self.ordinary)).saturating_add(of(&self.large))
    }

    /// Bytes of all frames.
    pub fn frames_bytes(&self) -> u64 {
        let of = |class: &Class| u64::from(class.groups) * u64::from(class.frames) * u64::from(class.frame_bytes);
        of(&self.ordinary) + of(&self.large)
    }

    /// Groups in all.
    pub fn groups(&self) -> u32 {
        self.ordinary.groups + self.large.groups
    }

    /// What a group is like.
    pub fn class_of(&self, group: u32) -> &Class {
        if group < self.ordinary.groups { &self.ordinary } else { &self.large }
    }

    /// Where a group begins on the disk (Figure 2).
    pub fn group_at(&self, group: u32) -> u64 {
        let count = self.groups();
        let bytes_of = |group: u32| self.class_of(group).group_bytes();
        let before: u64 = match self.centre {
            false => (0..group).map(bytes_of).sum(),
            // Even ones lie left of the middle, the last of them first.
            true if group.is_multiple_of(2) => (group + 1..count).filter(|n| n.is_multiple_of(2)).map(bytes_of).sum(),
            true => (0..count).filter(|n| n.is_multiple_of(2) || *n < group).map(bytes_of).sum(),
        };
        self.base + before
    }

    /// The number of a page among all pages of the disk.
    pub fn number(&self, at: At) -> u64 {
        let Class { groups, frames, .. } = self.ordinary;
        match at.group.checked_sub(groups) {
            None => u64::from(at.group) * u64::from(frames) + u64::from(at.page),
            Some(group) => {
                let ordinary = u64::from(groups) * u64::from(frames);
                ordinary + u64::from(group) * u64::from(self.large.frames) + u64::from(at.page)
            }
        }
    }

    fn at(&self, number: u64) -> Option<At> {
        let ordinary = u64::from(self.ordinary.groups) * u64::from(self.ordinary.frames);
        let (first, frames, number) = match number.checked_sub(ordinary) {
            None => (0, self.ordinary.frames, number),
            Some(number) => (self.ordinary.groups, self.large.frames, number),
        };
        let group = first + u32::try_from(number.checked_div(u64::from(frames))?).ok()?;
        (group < self.groups()).then_some(At { group, page: (number % u64::from(frames)) as u32 })
    }

    fn page_bits(&self) -> u32 {
        let of = |class: &Class| u64::from(class.groups) * u64::from(class.frames);
        u64::BITS - (of(&self.ordinary) + of(&self.large)).leading_zeros()
    }

    fn slot_bits(&self) -> u32 {
        page::most_slots(self.ordinary.frame_bytes.max(self.large.frame_bytes)).ilog2()
    }

    fn life_bits(&self) -> u32 {
        DISK_SHIFT.saturating_sub(self.page_bits() + self.slot_bits())
    }

    /// The last life that a page can have: places have no bits for more. It is left alone after that.
    pub fn last_life(&self) -> u64 {
        (1 << self.life_bits()) - 1
    }

    /// The place of a record.
    pub fn place(&self, slot: &Slot) -> Place {
        let (page_bits, slot_bits) = (self.page_bits(), self.slot_bits());
        Place(slot.life << (page_bits + slot_bits) | self.number(slot.at) << slot_bits | u64::from(slot.slot))
    }

    /// What a place means; `None` for one that is none of this disk's.
    pub fn slot(&self, place: Place) -> Option<Slot> {
        let (page_bits, slot_bits) = (self.page_bits(), self.slot_bits());
        let number = place.0 >> slot_bits & ((1 << page_bits) - 1);
        let slot = (place.0 & ((1 << slot_bits) - 1)) as u16;
        let life = place.0 >> (page_bits + slot_bits);
        (1..=self.last_life()).contains(&life).then_some(Slot { at: self.at(number)?, slot, life })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { groups: 16, frame_bytes: 64 << 10, large_percent: 50, centre: true };

    #[test]
    fn groups_lie_beside_each_other_from_the_middle_outwards() {
        for (bytes, shape) in [
            (8 << 20, SHAPE),
            (2 << 30, SHAPE),
            (1 << 40, SHAPE),
            (1 << 30, Shape { large_percent: 0, frame_bytes: 16 << 10, groups: 5, ..SHAPE }),
            (1 << 30, Shape { centre: false, ..SHAPE }),
        ] {
            let layout = DameloLayout::plan(bytes, 4096, 8192, &shape).unwrap();
            let mut order: Vec<_> = (0..layout.groups()).map(|group| (layout.group_at(group), group)).collect();
            order.sort_unstable();
            let mut at = layout.base;
            for (begins, group) in &order {
                assert_eq!(*begins, at, "group {group} of {layout:?}");
                at += layout.class_of(*group).group_bytes();
            }
            assert_eq!(at, layout.end());
            assert!(at <= bytes && at > bytes / 100 * 85, "{at} of {bytes} used");
            let numbers: Vec<_> = order.into_iter().map(|(_, group)| group).collect();
            if shape.centre && layout.groups() == 5 {
                assert_eq!(numbers, [4, 2, 0, 1, 3], "Figure 2, from 0");
            }
            assert_eq!(DameloLayout::decode(&layout.encode(), bytes), Some(layout));
            assert_eq!(DameloLayout::decode(&layout.encode(), layout.end() - 1), None, "a disk cut short");
        }
        assert_eq!(DameloLayout::plan(256 << 10, 4096, 8192, &SHAPE), None, "too small");
    }

    #[test]
    fn places_come_back() {
        let layout = DameloLayout::plan(1 << 30, 4096, 8192, &SHAPE).unwrap();
        let last = At { group: layout.groups() - 1, page: layout.large.frames - 1 };
        for at in
            [At { group: 0, page: 0 }, At { group: 3, page: 17 }, At { group: layout.ordinary.groups, page: 1 }, last]
        {
            for (slot, life) in [(0, 1), (511, layout.last_life())] {
                let slot = Slot { at, slot, life };
                assert_eq!(layout.slot(layout.place(&slot)), Some(slot));
                assert!(layout.place(&slot).0 < 1 << DISK_SHIFT);
            }
        }
        assert_eq!(layout.slot(Place(0)), None);
        assert_eq!(layout.slot(Place((1 << DISK_SHIFT) - 1)), None, "no such page");
    }
}
