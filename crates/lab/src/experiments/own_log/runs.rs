//! Each policy and each engine on a disk.

use tinaja_store::engines::Takes;
use tinaja_store::{EngineRef, Settings, engines};

use super::load::{Disk, Load};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::{Drive, Outcome as Driven, drive};
use crate::policies::{Asked, Outcome, Policy, REFERENCES, Replay, replay};
use crate::rig::{Reading, Rig, Spec, sata_7200};

/// What came of a disk.
pub struct Runs {
    pub disk: Disk,
    /// By [`REFERENCES`].
    pub references: Vec<Outcome>,
    /// Engines, by their names in tables; or why there is none on such a disk.
    pub engines: Vec<(String, Result<Engine, String>)>,
}

/// What an engine made of it.
pub struct Engine {
    pub driven: Driven,
    /// Memory of the index for each object that was there at the end, in bits; nothing where the index does not know of all.
    pub index_bits: Option<f64>,
    /// What the disk was asked for, what is written out at the end as well.
    pub spent: Reading,
}

/// Told of a run that begins, by its name, and of each request.
pub type Told<'a> = &'a mut dyn FnMut(Option<&str>);

/// An engine, as it is set.
pub struct Subject {
    name: String,
    engine: EngineRef,
    settings: Settings,
}

/// The engines that were asked for: each as it is by default, and with each other word where a setting takes one of several.
pub fn engines(setup: &Setup) -> Vec<Subject> {
    let engines = match &setup.replay.engines[..] {
        [] => engines::on_devices().iter().collect(),
        asked => asked.to_vec(),
    };
    let mut subjects = Vec::new();
    for engine in engines {
        subjects.push(Subject { name: engine.name.to_owned(), engine, settings: Settings::new() });
        for setting in engine.settings {
            let Takes::OneOf(words) = setting.takes else { continue };
            subjects.extend((0..).zip(words).skip(1).map(|(at, word)| Subject {
                name: format!("{engine}, {} = {word}", setting.name),
                engine,
                settings: Settings::new().with(setting, at),
            }));
        }
    }
    subjects
}

impl Runs {
    /// Requests of all runs on one disk.
    pub fn steps(load: &Load, engines: &[Subject]) -> usize {
        (REFERENCES.len() + engines.len()) * load.requests.len()
    }

    /// Replay the log by all policies and engines. Errors: an engine gave other bytes than were stored.
    pub fn of(load: &Load, disk: Disk, engines: &[Subject], setup: &Setup, told: Told<'_>) -> Result<Runs, LabError> {
        let mut references = Vec::new();
        for reference in &REFERENCES {
            told(Some(reference.name));
            let mut policy = Watched { policy: (reference.new)(disk.bytes), told };
            references.push(replay(&load.sequence, &mut policy, Replay::default()));
        }
        let mut ran = Vec::new();
        for subject in engines {
            told(Some(&subject.name));
            ran.push((subject.name.clone(), Engine::run(subject, load, disk, setup, told)?));
        }
        Ok(Runs { disk, references, engines: ran })
    }
}

/// A policy, and who is told of each request.
struct Watched<'a> {
    policy: Box<dyn Policy>,
    told: Told<'a>,
}

impl Policy for Watched<'_> {
    fn ask(&mut self, asked: &Asked) -> bool {
        (self.told)(None);
        self.policy.ask(asked)
    }
}

impl Engine {
    fn run(
        subject: &Subject,
        load: &Load,
        disk: Disk,
        setup: &Setup,
        told: Told<'_>,
    ) -> Result<Result<Engine, String>, LabError> {
        let spec = Spec {
            mean_object_bytes: load.mean_object_bytes,
            hot_bytes: setup.replay.memory_bytes,
            models: vec![sata_7200()],
            settings: subject.settings.clone(),
            ..Spec::new(subject.engine, disk.bytes)
        };
        let rig = match Rig::new(&spec) {
            Ok(rig) => rig,
            Err(LabError::Engine { why, .. }) => {
                load.requests.iter().for_each(|_| told(None));
                return Ok(Err(why));
            }
            Err(other) => return Err(other),
        };
        let requests = load.requests.iter().copied().inspect(|_| told(None));
        let driven = drive(&rig, requests, &Drive { clock: Some(0), ..Drive::default() })?;
        let (live, index_bytes) = (driven.spent.stats.live_objects, driven.spent.stats.index_bytes);
        rig.settle()?;
        let index_bits = (live > 0).then(|| index_bytes as f64 * 8.0 / live as f64);
        Ok(Ok(Engine { driven, index_bits, spent: rig.read() }))
    }
}
