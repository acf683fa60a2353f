//! What to do when a connection cannot be accepted, whoever it is for.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::sleep;

/// The system may have no open file left for one more; it is asked again after so long.
pub(crate) const NO_FILES: Duration = Duration::from_millis(100);

/// Returns when the next connection may be accepted. A failure that is one connection's own is over already. Any other, such
/// as too many open files, does not end by asking again at once.
pub(crate) async fn recover(error: io::Error) {
    let own =
        matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted);
    if !own {
        tracing::warn!(%error, "a connection could not be accepted");
        sleep(NO_FILES).await;
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn too_many_files_take_a_while() {
        for (errno, waited) in
            [(Errno::MFILE, NO_FILES), (Errno::NFILE, NO_FILES), (Errno::CONNABORTED, Duration::ZERO)]
        {
            let began = Instant::now();
            recover(errno.into()).await;
            assert_eq!(began.elapsed(), waited, "{errno}");
        }
    }
}
