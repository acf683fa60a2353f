//! Sections 5.1 to 5.3, Figures 4 to 6 and 8 to 25: create, read and delete in five orderings, by size of frame.

use std::sync::Arc;

use super::load::{Objects, Ordering};
use super::modelled::{self, ModelDisk, Run, Size, Without};
use super::subject::{Setting, largest_object};
use super::{claims, limited, notes, tables};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::paper::damelo as paper;
use crate::peers::needs_root;
use crate::progress::Progress;
use crate::report::Report;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "damelo-micro",
    shows: "create, read and delete in five orderings, by size of frame, and beside a tree of files",
    paper: "Dámelo, sections 5.1 to 5.3, Figures 4 to 6",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Time,
    run,
};

/// The size on the limited disk, as a part of the paper's; and in short of either.
const LIMITED: u32 = 16;
const QUICK: (u32, u32) = (64, 128);
/// So much memory at least on the limited disk: the kernel ends a process that has less for what it must write.
const LEAST_LIMITED_BYTES: u64 = 8 << 20;
/// The size of frames with which things are switched off.
const SWITCHED_KIB: u32 = paper::BEST_FRAME_KIB;

fn run(setup: &Setup) -> Result<Report, LabError> {
    let frames = setup.choose(paper::FRAMES_KIB.to_vec(), vec![16, 64]);
    let size = Size::of_paper(setup.choose(1, QUICK.0));
    let objects = Arc::new(Objects::new(size.objects, largest_object(), setup.seed));
    let disk = ModelDisk::scsi(&size);
    let mut runs = Vec::new();
    for kib in &frames {
        let title = format!("damelo-micro: on a modelled disk, frames of {kib} KiB");
        let mut progress = Progress::of(title, Ordering::CREATED.len());
        for created in Ordering::CREATED {
            let setting = Setting::whole(kib << 10, size.pool_bytes);
            runs.extend(modelled::measure(&disk, &size, &objects, created, setting)?);
            progress.step();
        }
    }
    let switched = [disk.clone(), ModelDisk::flash(&size)]
        .into_iter()
        .map(|disk| Ok((disk.name, switch(&disk, &size, &objects)?)))
        .collect::<Result<Vec<_>, LabError>>()?;
    let small = Size::of_paper(setup.choose(LIMITED, QUICK.1));
    let small = Size { pool_bytes: small.pool_bytes.max(LEAST_LIMITED_BYTES), ..small };
    let kept = match needs_root() {
        Ok(()) => {
            let objects = Arc::new(Objects::new(small.objects, largest_object(), setup.seed));
            Some(limited::measure(setup, &small, &objects, &frames)?)
        }
        Err(_) => None,
    };
    let kept = kept.as_deref();
    let mut tables = vec![tables::by_frame(&runs), tables::latencies(&runs), tables::hit_rates(&runs)];
    tables.extend(switched.iter().map(|(name, runs)| tables::switched(name, runs)));
    tables.extend(kept.map(tables::kept));
    tables.push(claims::table(&runs, kept));
    let mut plots = tables::plots(&runs);
    plots.extend(kept.map(tables::plot_kept));
    let notes = notes::notes(&size, &small, kept);
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

/// Two orderings with each thing switched off.
fn switch(disk: &ModelDisk, size: &Size, objects: &Arc<Objects>) -> Result<Vec<(Without, Vec<Run>)>, LabError> {
    let mut progress = Progress::of(format!("damelo-micro: switched off, {}", disk.name), Without::ALL.len());
    let mut runs = Vec::new();
    for without in Without::ALL {
        let whole = Setting { depth: disk.depth, ..Setting::whole(SWITCHED_KIB << 10, size.pool_bytes) };
        let setting = without.setting(whole);
        if without != Without::Nothing && setting == whole {
            continue;
        }
        let read = &[Ordering::Random, Ordering::ZIPF_1_8];
        runs.push((without, modelled::measure(disk, size, objects, (Ordering::Random, read), setting)?));
        progress.step();
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::damelo::load::Stage;

    /// The engine itself, at a 64th of the size: the same again gives the same, and what must hold of any run holds.
    #[test]
    fn the_engine_over_a_modelled_disk() {
        let size = Size::of_paper(64);
        let objects = Arc::new(Objects::new(size.objects, largest_object(), 2009));
        let disk = ModelDisk::scsi(&size);
        let run = |ordering, read: &[Ordering]| {
            let setting = Setting::whole(32 << 10, size.pool_bytes);
            modelled::measure(&disk, &size, &objects, (ordering, read), setting).unwrap()
        };
        let [sequential, again] = [(); 2].map(|()| run(Ordering::Sequential, &[Ordering::Sequential]).remove(0));
        for stage in Stage::ALL {
            let (one, other) = (sequential.stage(stage), again.stage(stage));
            assert_eq!((one.took, one.reads, one.writes), (other.took, other.reads, other.writes), "{stage:?}");
            assert_eq!(one.latencies.count(), u64::from(size.objects));
        }
        // Each page is read once, and all that lies on it is asked for meanwhile, but for some pages of so small a pool: objects
        // that follow each other lie on up to eight pages.
        assert!((0.75..=1.01).contains(&sequential.hit_rate()), "{}", sequential.hit_rate());
        let [random, zipf] = run(Ordering::Random, &[Ordering::Random, Ordering::ZIPF_1_8]).try_into().unwrap();
        assert!(random.read().reads > sequential.read().reads * 3 / 2);
        assert!(random.hit_rate() < 0.7 && zipf.hit_rate() > random.hit_rate());
        assert_eq!(random.stage(Stage::Delete).reads, 0, "a delete asks no disk");
    }
}
