//! What the model's processors spend their time on.

use tinaja_cluster::message::Message;

/// What a processor's time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Answers by HTTP.
    Answers,
    /// Misses.
    Misses,
    /// The node's own requests: its looks, its reads, what it keeps, its part of its swaps.
    Requests,
    /// What others send here: the other part of their swaps, and their pushes.
    Others,
    /// The tables: what a home does, what is heard of homes, and what room there is.
    Tables,
}

impl On {
    pub const ALL: [On; 5] = [On::Answers, On::Misses, On::Requests, On::Others, On::Tables];

    /// What a message makes its receiver work on.
    pub fn message(message: &Message) -> On {
        match message {
            Message::Take { .. } | Message::ReadEnded { .. } => On::Others,
            Message::Took { .. } => On::Requests,
            _ => On::Tables,
        }
    }
}

/// Nanoseconds of a processor, by [`On::ALL`]; and what of them went to messages and to reads.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    pub on: [u64; On::ALL.len()],
    pub messages: u64,
    pub reads: u64,
}

impl Spent {
    /// What one thing took.
    pub fn of(work: [(On, u64); 3], messages: u64, reads: u64) -> Spent {
        let mut spent = Spent { messages, reads, ..Spent::default() };
        for (on, ns) in work {
            On::ALL.iter().zip(&mut spent.on).filter(|(one, _)| **one == on).for_each(|(_, sum)| *sum += ns);
        }
        spent
    }

    /// And what another one took.
    pub fn add(&mut self, other: &Spent) {
        self.on.iter_mut().zip(other.on).for_each(|(sum, one)| *sum += one);
        self.messages += other.messages;
        self.reads += other.reads;
    }
}

/// What all proxies have done, since some moment.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    pub proxies: u64,
    pub spent: Spent,
    pub found: u64,
    pub swapped: u64,
}

impl Sums {
    /// The same since another moment, when it was that much.
    pub fn since(mut self, before: &Sums) -> Sums {
        self.spent.on.iter_mut().zip(before.spent.on).for_each(|(sum, before)| *sum -= before);
        self.spent.messages -= before.spent.messages;
        self.spent.reads -= before.spent.reads;
        self.found -= before.found;
        self.swapped -= before.swapped;
        self
    }

    /// By so many requests, in so many nanoseconds.
    pub fn throughput(&self, requests: u64, lasted: u64) -> Throughput {
        let each = |ns: u64| ns as f64 / 1e3 / requests as f64;
        let percent = |count: u64| 100.0 * count as f64 / requests as f64;
        let lasted = lasted as f64;
        // What has begun is counted whole.
        let busy = self.spent.on.iter().sum::<u64>() as f64 / lasted / self.proxies as f64;
        Throughput {
            per_second: requests as f64 / lasted * 1e9,
            us: self.spent.on.map(each),
            messages_us: each(self.spent.messages),
            reads_us: each(self.spent.reads),
            busy_percent: 100.0 * busy.min(1.0),
            found_percent: percent(self.found),
            swapped_percent: percent(self.swapped),
        }
    }
}

/// What so many requests took.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    pub per_second: f64,
    /// Of the proxies' processors, a request, in microseconds, by [`On::ALL`].
    pub us: [f64; On::ALL.len()],
    /// Of that, what went to messages and to reads.
    pub messages_us: f64,
    pub reads_us: f64,
    /// How busy the proxies' processors were.
    pub busy_percent: f64,
    /// Found by a hundred of requests, and exchanged.
    pub found_percent: f64,
    pub swapped_percent: f64,
}

impl Throughput {
    pub fn on(&self, on: On) -> f64 {
        On::ALL.iter().zip(self.us).find(|(one, _)| **one == on).map_or(0.0, |(_, us)| us)
    }

    /// All of it.
    pub fn cpu_us(&self) -> f64 {
        self.us.iter().sum()
    }

    /// What is not HTTP or a miss.
    pub fn own_us(&self) -> f64 {
        [On::Requests, On::Others, On::Tables].map(|on| self.on(on)).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_counted_by_what_it_went_to() {
        let mut sums = Sums { proxies: 2, ..Sums::default() };
        sums.spent.add(&Spent::of([(On::Answers, 30_000), (On::Misses, 0), (On::Requests, 5000)], 2000, 1000));
        let before = sums;
        sums.spent.add(&Spent::of([(On::Answers, 0), (On::Misses, 60_000), (On::Others, 20_000)], 4000, 3000));
        sums.spent.add(&Spent::of([(On::Answers, 0), (On::Misses, 0), (On::Others, 10_000)], 0, 0));
        (sums.found, sums.swapped) = (3, 1);
        let at = sums.since(&before).throughput(10, 90_000);
        assert_eq!(On::ALL.map(|on| at.on(on)), [0.0, 6.0, 0.0, 3.0, 0.0]);
        assert_eq!((at.cpu_us(), at.own_us(), at.messages_us, at.reads_us), (9.0, 3.0, 0.4, 0.3));
        assert_eq!((at.busy_percent, at.found_percent, at.swapped_percent), (50.0, 30.0, 10.0));
        assert_eq!(at.per_second.round(), 111_111.0);
    }
}
