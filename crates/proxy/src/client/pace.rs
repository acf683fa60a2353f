//! How fast a client sends the content of its request.

use std::time::Duration;

use super::Patience;

/// What has come, and how long it took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Time in which the client was waited for. What an origin takes to take it does not count.
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// Waits for more; nothing where it takes too long: at once, or, since a byte now and then is no stall, in the mean.
    pub async fn wait<T>(&mut self, patience: &Patience, more: impl Future<Output = T>) -> Option<T> {
        let (began, left) = (patience.clock.now(), self.left(patience));
        if left.is_zero() {
            // A timer takes a moment, and what comes within it would be taken again and again.
            return None;
        }
        let more = patience.clock.timeout(left, more).await.ok();
        self.waited += patience.clock.since(began);
        more
    }

    /// So many bytes have come.
    pub fn came(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// How long the next bytes may take.
    fn left(&self, Patience { stall, body_rate, .. }: &Patience) -> Duration {
        let Some(earned_ms) = self.bytes.saturating_mul(1000).checked_div(*body_rate) else { return *stall };
        (*stall + Duration::from_millis(earned_ms)).saturating_sub(self.waited).min(*stall)
    }
}

#[cfg(test)]
mod tests {
    use tinaja_clock::ManualClock;

    use super::*;
    use crate::held::Held;

    fn left(rate: u64, waited: u64, bytes: u64) -> u64 {
        let clock = ManualClock::new().clock();
        let patience = Patience { clock, stall: Duration::from_secs(60), body_rate: rate, held: Held::new(0) };
        Pace { waited: Duration::from_secs(waited), bytes }.left(&patience).as_secs()
    }

    /// Each byte was there before a timer of no time had been looked at, on a busy machine thirty times in a row.
    #[tokio::test]
    async fn what_comes_too_late_is_not_taken_since_it_is_there_already() {
        let hand = ManualClock::new();
        let patience =
            Patience { clock: hand.clock(), stall: Duration::from_secs(2), body_rate: 500, held: Held::new(0) };
        let mut pace = Pace::default();
        let mut taken = 0;
        let late = async |hand: &ManualClock| hand.advance(Duration::from_millis(1500));
        while pace.wait(&patience, late(&hand)).await.is_some() && taken < 30 {
            pace.came(1);
            taken += 1;
        }
        assert_eq!(taken, 2);
    }

    #[test]
    fn as_long_as_a_stall_and_what_has_come_allow() {
        assert_eq!(left(500, 0, 0), 60);
        assert_eq!(left(500, 59, 0), 1);
        assert_eq!(left(500, 59, 40), 1);
        assert_eq!(left(500, 60, 0), 0);
        assert_eq!(left(500, 60, 5000), 10);
        assert_eq!(left(500, 60, u64::MAX), 60);
        assert_eq!(left(0, 6000, 1), 60);
    }
}
