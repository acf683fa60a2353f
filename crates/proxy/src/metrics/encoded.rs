//! Answers that were compressed, and what that saved.

use prometheus::{IntCounterVec, Opts, Registry};
use tinaja_http::encoding::Coding;

use super::register;

/// The counters.
#[derive(Debug)]
pub(crate) struct Encoded {
    made: IntCounterVec,
    taken_in: IntCounterVec,
    put_out: IntCounterVec,
    sent: IntCounterVec,
}

impl Encoded {
    pub fn new(registry: &Registry) -> prometheus::Result<Encoded> {
        let made = "Stored responses that were to be encoded, by coding and by what came of it.";
        let made = IntCounterVec::new(Opts::new("tinaja_encoded_objects_total", made), &["coding", "result"])?;
        let taken_in = "Bytes of stored responses that were encoded, as they are.";
        let taken_in = IntCounterVec::new(Opts::new("tinaja_encoder_in_bytes_total", taken_in), &["coding"])?;
        let put_out = "Bytes of what stored responses were encoded to.";
        let put_out = IntCounterVec::new(Opts::new("tinaja_encoder_out_bytes_total", put_out), &["coding"])?;
        let sent = "Hits of which the encoded form was sent to its end.";
        let sent = IntCounterVec::new(Opts::new("tinaja_encoded_hits_total", sent), &["coding"])?;
        let encoded = Encoded {
            made: register(registry, made)?,
            taken_in: register(registry, taken_in)?,
            put_out: register(registry, put_out)?,
            sent: register(registry, sent)?,
        };
        // All of them are there from the beginning, so that a rate can be told.
        for coding in Coding::ALL {
            for result in ["stored", "not_smaller", "failed", "left_out"] {
                encoded.made.get_metric_with_label_values(&[coding.name(), result])?;
            }
            for of in [&encoded.taken_in, &encoded.put_out, &encoded.sent] {
                of.get_metric_with_label_values(&[coding.name()])?;
            }
        }
        Ok(encoded)
    }

    /// One of so many bytes has become so many, 0 where that would have been no fewer; or it could not be done.
    pub fn made(&self, coding: Coding, lengths: Option<(u64, u64)>) {
        let result = match lengths {
            None => "failed",
            Some((_, 0)) => "not_smaller",
            Some((before, after)) => {
                self.taken_in.with_label_values(&[coding.name()]).inc_by(before);
                self.put_out.with_label_values(&[coding.name()]).inc_by(after);
                "stored"
            }
        };
        self.made.with_label_values(&[coding.name(), result]).inc();
    }

    /// One was left as it is, since too many waited.
    pub fn left_out(&self, coding: Coding) {
        self.made.with_label_values(&[coding.name(), "left_out"]).inc();
    }

    /// A client got all of one.
    pub fn sent(&self, coding: Coding) {
        self.sent.with_label_values(&[coding.name()]).inc();
    }
}
