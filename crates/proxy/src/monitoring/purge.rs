//! `POST /purge`: what is named by a form is taken back, for whoever has the credentials. For programs that cannot reach the control socket, as
//! a site's own after a deploy on another machine.

use std::sync::Arc;

use tinaja_http::body::Framing;
use tinaja_http::judge::Judged;
use tinaja_http::lines::lines;
use tinaja_store::Pending;
use tokio::sync::Semaphore;

use crate::admin::words::{Answer, Ask};
use crate::admin::{Named, What};
use crate::mirrors::Credentials;

/// Where it is asked for.
pub(super) const PATH: &str = "/purge";
/// The longest form, in bytes.
const MOST_FORM_BYTES: u64 = 64 * 1024;
/// Forms that are carried out at a time.
const MOST_AT_ONCE: usize = 4;

/// Has done what an operator asks.
pub(crate) type CarryOut = Arc<dyn Fn(Ask) -> Pending<Answer> + Send + Sync>;

/// Who purges, for whom.
pub(crate) struct Purger {
    credentials: Credentials,
    carry_out: CarryOut,
    turns: Semaphore,
}

/// A status, and the text below it.
pub(super) type Said = (&'static str, String);

impl Purger {
    pub fn new(credentials: Credentials, carry_out: CarryOut) -> Purger {
        Purger { credentials, carry_out, turns: Semaphore::new(MOST_AT_ONCE) }
    }

    /// How long the form is that comes behind this head.
    ///
    /// Errors: why none is read.
    pub fn form_bytes(&self, head: &[u8], judged: &Judged) -> Result<usize, Said> {
        let said = |status, text: &str| Err((status, text.to_owned()));
        if judged.method != "POST" {
            return said("405 Method Not Allowed", "purges are asked for by POST, with a form");
        }
        let fields = head.get(judged.fields.clone()).unwrap_or_default();
        let mut told = lines(fields).filter(|line| line.is(&http::header::AUTHORIZATION));
        if !told.next().is_some_and(|line| self.credentials.are(line.value)) {
            return said("401 Unauthorized", "the credentials are not those in the file that purge_credentials names");
        }
        match judged.framing {
            Framing::Length(length @ ..=MOST_FORM_BYTES) => Ok(usize::try_from(length).unwrap_or_default()),
            Framing::Length(_) => said("413 Content Too Large", "a form has 64 KiB at most: purge less at a time"),
            Framing::Chunked => said("411 Length Required", "the form needs a Content-Length"),
        }
    }

    /// Takes back what a form names, and says of each what became of it.
    pub async fn purge(&self, form: &[u8]) -> Said {
        let all = match Named::of_form(form).and_then(|named| named.everything()) {
            Ok(all) => all,
            Err(error) => return ("400 Bad Request", format!("{error}\nnothing was purged\n")),
        };
        let Ok(_turn) = self.turns.try_acquire() else {
            return ("503 Service Unavailable", "others purge at the moment: try again in a second\n".into());
        };
        let (mut text, mut failed) = (String::new(), false);
        for (name, what) in all {
            let purged = self.one(&what).await;
            failed |= purged.is_err();
            text += &format!("{name}: {}\n", what.said(purged));
        }
        (if failed { "503 Service Unavailable" } else { "200 OK" }, text)
    }

    async fn one(&self, what: &What) -> Result<u64, String> {
        match (self.carry_out)(what.ask()).await {
            Answer::Purged { objects } => Ok(objects),
            Answer::PurgedBy => Ok(1),
            Answer::Failed { why } => Err(why),
            _ => Err("the server gave another answer than that to a purge".into()),
        }
    }
}
