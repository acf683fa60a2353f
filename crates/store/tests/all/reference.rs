//! The reference store keeps the contract it defines.

use std::sync::Arc;

use tinaja_store::contract::{Harness, Size, Subject};
use tinaja_store::{Reference, Store};

struct InMemory;

struct Kept(Arc<Reference>);

impl Harness for InMemory {
    fn fresh(&self, _size: Size) -> Box<dyn Subject> {
        Box::new(Kept(Arc::new(Reference::new())))
    }

    fn sweeps(&self) -> bool {
        true
    }
}

impl Subject for Kept {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn reopen(&mut self) -> bool {
        false
    }
}

tinaja_store::contract_tests!(InMemory);
