// SPDX-License-Identifier: GPL-2.0

//! How much memory the kernel has in use, to see whether it grows.

use crate::kit::{machine, wait};
use std::collections::BTreeMap;
use std::fmt;

/// What is in use in the kernel, as far as tests compare it.
pub struct Usage {
    slab: BTreeMap<String, i64>,
    /// Slab that cannot be reclaimed.
    slab_kb: i64,
    areas: i64,
    percpu_kb: i64,
    /// Pages of objects that are too large for a cache.
    large: i64,
    /// Pages that are none of these, nor user memory.
    pages: i64,
}

impl Usage {
    /// What it is now, without what caches hold.
    pub fn now() -> Usage {
        machine::drop_caches();
        if machine::slowness() > 1 {
            machine::forget_free_objects();
            machine::give_up_free_areas();
        }
        let mut slab = machine::slab_objects();
        // Counts freed areas too, such as the stack of every process that ended, until the kernel
        // flushes address translations; those in use are counted one by one below.
        slab.remove("vmap_area");
        // kmemleak's note of each of these.
        slab.remove("kmemleak_scan_area");
        // What a debug kernel notes of objects, some of which it forgets late or never: a module without any
        // object makes it grow as well.
        slab.remove("debug_objects_cache");
        // One for each object that the kernel looks after, which is counted where it is; it tells itself
        // of those that are lost.
        slab.remove("kmemleak_object");
        Usage {
            slab,
            slab_kb: machine::meminfo("SUnreclaim"),
            areas: machine::vmalloc_areas().len() as i64,
            percpu_kb: machine::meminfo("Percpu"),
            large: machine::large_object_pages(),
            pages: machine::other_pages(),
        }
    }

    /// The least of several looks at everything. Each CPU takes free objects in advance, some sixty of a cache, which count
    /// as in use, when it next needs one: which caches have that at a look is by chance.
    pub fn least() -> Usage {
        const LOOKS: usize = 4;
        let mut usage = Usage::now();
        for _ in 1..LOOKS {
            let next = Usage::now();
            for (cache, objects) in &mut usage.slab {
                let now = next.slab.get(cache);
                *objects = now.map_or(0, |&now| now.min(*objects));
            }
            usage.slab_kb = usage.slab_kb.min(next.slab_kb);
            usage.areas = usage.areas.min(next.areas);
            usage.percpu_kb = usage.percpu_kb.min(next.percpu_kb);
            usage.large = usage.large.min(next.large);
            usage.pages = usage.pages.min(next.pages);
        }
        usage
    }

    /// How many objects more than before are in use, by cache.
    fn objects_since<'a>(&'a self, before: &'a Usage) -> impl Iterator<Item = (&'a String, i64)> {
        self.slab
            .iter()
            .map(|(cache, objects)| (cache, objects - before.slab.get(cache).unwrap_or(&0)))
    }

    /// What grew by at least `least` since `before`.
    pub fn grew(&self, before: &Usage, least: i64) -> BTreeMap<String, i64> {
        let objects = self.objects_since(before);
        let mut grown: BTreeMap<_, _> = objects
            .map(|(cache, by)| (format!("slab {cache}"), by))
            .collect();
        grown.insert("vmalloc areas".into(), self.areas - before.areas);
        grown.insert("per-CPU kB".into(), self.percpu_kb - before.percpu_kb);
        grown.insert("pages of large objects".into(), self.large - before.large);
        grown.insert("other pages".into(), self.pages - before.pages);
        grown.retain(|_, by| *by >= least);
        grown
    }

    /// The cache that has the most objects more than before.
    pub fn most_grown_since(&self, before: &Usage) -> String {
        let most = self.objects_since(before).max_by_key(|(_, by)| *by);
        most.map_or(String::new(), |(cache, by)| format!("{cache} {by:+}"))
    }
}

/// Under the heads "slab kB", "per-CPU kB", "areas" and "pages" of a table.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slab, percpu, areas) = (self.slab_kb, self.percpu_kb, self.areas);
        write!(f, "{slab:>9} {percpu:>11} {areas:>6} {:>7}", self.pages)
    }
}

/// How much more may be in use than at an earlier time.
pub struct Bounds {
    /// Slab that cannot be reclaimed.
    pub slab_kb: i64,
    /// Objects of any one cache.
    pub objects: i64,
    pub percpu_kb: i64,
    /// vmalloc areas.
    pub areas: i64,
    /// Pages that are none of these.
    pub pages: i64,
}

impl Bounds {
    /// What is beyond them.
    fn broken(&self, before: &Usage, now: &Usage) -> Vec<String> {
        let objects = now
            .objects_since(before)
            .filter(|(_, by)| *by > self.objects)
            .map(|(cache, by)| format!("{cache} by {by} objects"));
        let others = [
            ("slab kB", now.slab_kb - before.slab_kb, self.slab_kb),
            (
                "per-CPU kB",
                now.percpu_kb - before.percpu_kb,
                self.percpu_kb,
            ),
            ("vmalloc areas", now.areas - before.areas, self.areas),
            ("other pages", now.pages - before.pages, self.pages),
        ];
        let others = others.into_iter().filter(|(_, by, most)| by > most);
        objects
            .chain(others.map(|(what, by, _)| format!("{what} by {by}")))
            .collect()
    }

    /// Panics if more is in use than they allow. Frees that wait for a grace period may be late, so
    /// it looks again for a while.
    #[track_caller]
    pub fn hold(&self, before: &Usage, now: &Usage) {
        let mut broken = self.broken(before, now);
        let holds = broken.is_empty()
            || wait::eventually(|| {
                broken = self.broken(before, &Usage::now());
                broken.is_empty()
            });
        assert!(holds, "grew: {}", broken.join(", "));
    }
}

/// What grew by at least half as much as there were rounds, in the first half of them.
struct Growth {
    tolerance: i64,
    first: BTreeMap<String, i64>,
    middle: Usage,
}

impl Growth {
    /// Runs `round` so often, twice over.
    fn of(rounds: usize, round: &mut impl FnMut(usize)) -> Growth {
        let tolerance = rounds as i64 / 2;
        let start = Usage::least();
        (0..rounds).for_each(&mut *round);
        let middle = Usage::least();
        (0..rounds).for_each(&mut *round);
        Growth {
            tolerance,
            first: middle.grew(&start, tolerance),
            middle,
        }
    }

    /// What has grown in the second half, too, as it is now.
    fn in_both(&self) -> BTreeMap<String, i64> {
        let mut second = Usage::now().grew(&self.middle, self.tolerance);
        second.retain(|what, _| self.first.contains_key(what));
        second
    }
}

/// Runs `round` so often, twice over, and fails if anything grew both times by at least half as much, and does so when
/// that is done once more.
///
/// The counts are not exact: slab counts objects that lie ready on a CPU as in use, grace periods end when they like, and
/// the rest of the machine lives too. So a leak is what a leak does: it grows with the rounds, every time. Something lost
/// in every round grows by `rounds` in each half; half of that is the tolerance. What there is before a half is the least
/// of several looks: what one shows above that would hide what is lost. What a CPU takes in advance, and keeps, is now and
/// then more than the tolerance, but not four times in one cache.
pub fn grows_by_nothing(warm_up: usize, rounds: usize, mut round: impl FnMut(usize)) {
    (0..warm_up).for_each(&mut round);
    let grown = Growth::of(rounds, &mut round).in_both();
    if grown.is_empty() {
        return;
    }
    println!("  # grew in both halves of {rounds} rounds, so that is done once more: {grown:?}");
    let growth = Growth::of(rounds, &mut round);
    let mut again = BTreeMap::new();
    // Frees that wait for a grace period may be late: looks again for a while before it judges.
    let settled = wait::eventually(|| {
        again = growth.in_both();
        again.retain(|what, _| grown.contains_key(what));
        again.is_empty()
    });
    assert!(settled, "grew in each half of {rounds} rounds: {again:?}");
}
