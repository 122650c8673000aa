// SPDX-License-Identifier: GPL-2.0

//! The kernel's memory in use, to find leaks.

use crate::kit::{machine, wait};
use std::collections::BTreeMap;
use std::fmt;

/// The memory in use, as far as tests compare it.
pub struct Usage {
    /// Objects of each slab cache, vmalloc areas, and all other pages without user memory.
    counts: BTreeMap<String, i64>,
    /// Unreclaimable slab.
    slab_kb: i64,
}

/// The start of the names of counts of objects.
const SLAB: &str = "slab ";
/// The other counts; the first is that of unreclaimable slab.
pub const SLAB_KB: &str = "slab kB";
pub const AREAS: &str = "vmalloc areas";
pub const PERCPU_KB: &str = "per-CPU kB";
pub const LARGE: &str = "pages of large objects";
pub const PAGES: &str = "other pages";

impl Usage {
    /// The usage now, with caches dropped.
    pub fn now() -> Usage {
        machine::drop_caches();
        if machine::slowness() > 1 {
            machine::forget_free_objects();
            machine::give_up_free_areas();
        }
        let mut slab = machine::slab_objects();
        // Includes lazily freed areas, such as the stacks of ended processes, until the next TLB
        // flush; those in use are counted separately below.
        slab.remove("vmap_area");
        // kmemleak's object for each of these.
        slab.remove("kmemleak_scan_area");
        // The tracking of debugobjects, part of which is freed late or never. It grows even with a
        // module that has no objects.
        slab.remove("debug_objects_cache");
        // One for each object known to kmemleak, each of which is counted in its own cache;
        // kmemleak reports leaks itself.
        slab.remove("kmemleak_object");
        let slab_kb = machine::meminfo("SUnreclaim");
        let others = [
            (AREAS, machine::vmalloc_areas().len() as i64),
            (PERCPU_KB, machine::meminfo("Percpu")),
            (LARGE, machine::large_object_pages()),
            (PAGES, machine::other_pages()),
        ];
        let slab = slab.into_iter();
        let slab = slab.map(|(cache, count)| (format!("{SLAB}{cache}"), count));
        let others = others.into_iter().map(|(what, count)| (what.into(), count));
        let counts = slab.chain(others).collect();
        Usage { counts, slab_kb }
    }

    /// The minimum of several samples. Each CPU caches free objects, some sixty for each slab
    /// cache, which count as in use: a single sample includes them at random.
    pub fn least() -> Usage {
        const LOOKS: usize = 4;
        let mut usage = Usage::now();
        for _ in 1..LOOKS {
            let next = Usage::now();
            for (what, count) in &mut usage.counts {
                *count = next.counts.get(what).map_or(0, |next| *next.min(count));
            }
            usage.slab_kb = usage.slab_kb.min(next.slab_kb);
        }
        usage
    }

    /// The increase of each count.
    fn since<'a>(&'a self, before: &'a Usage) -> impl Iterator<Item = (&'a str, i64)> {
        let counts = self.counts.iter();
        counts.map(|(what, count)| (what.as_str(), count - before.counts.get(what).unwrap_or(&0)))
    }

    /// The increases of at least `least` since `before`.
    pub fn grew(&self, before: &Usage, least: i64) -> BTreeMap<String, i64> {
        let grown = self.since(before).filter(|(_, by)| *by >= least);
        grown.map(|(what, by)| (what.into(), by)).collect()
    }

    /// The slab cache with the largest increase.
    pub fn most_grown_since(&self, before: &Usage) -> String {
        let grown = self.since(before);
        let objects = grown.filter(|(what, _)| what.starts_with(SLAB));
        let most = objects.max_by_key(|(_, by)| *by);
        most.map_or(String::new(), |(cache, by)| format!("{cache} {by:+}"))
    }

    /// The increases above the bounds, or above `objects` for a count without one.
    fn above(&self, before: &Usage, bounds: &[(&str, i64)], objects: i64) -> Vec<String> {
        let most = |what: &str| {
            let bound = bounds.iter().find(|(name, _)| *name == what);
            bound.map_or(objects, |(_, most)| *most)
        };
        let slab = (SLAB_KB, self.slab_kb - before.slab_kb);
        let grown = self.since(before).chain([slab]);
        let above = grown.filter(|(what, by)| *by > most(what));
        above.map(|(what, by)| format!("{what} by {by}")).collect()
    }

    /// Panics if an increase is above its bound. Samples again for a while, as frees after a grace
    /// period may be late.
    #[track_caller]
    pub fn is_within(&self, before: &Usage, bounds: &[(&str, i64)], objects: i64) {
        let mut above = self.above(before, bounds, objects);
        let is_within = above.is_empty()
            || wait::eventually(|| {
                above = Usage::now().above(before, bounds, objects);
                above.is_empty()
            });
        assert!(is_within, "grew: {}", above.join(", "));
    }
}

/// Columns of a table with the heads "slab kB", "per-CPU kB", "areas" and "pages".
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [percpu, areas, pages] = [PERCPU_KB, AREAS, PAGES].map(|what| self.counts[what]);
        write!(f, "{:>9} {percpu:>11} {areas:>6} {pages:>7}", self.slab_kb)
    }
}

/// Runs `round` twice `rounds` times, and fails if any count grows by at least `rounds / 2` in both
/// halves, and again when all is repeated.
///
/// The counts are inexact: they include free objects cached by CPUs and memory that waits for a
/// grace period, and the rest of the machine is not idle. So a leak must grow with the rounds, each
/// time. A leak of one object in every round grows by `rounds` in each half; half of that is the
/// tolerance. The count before a half is the minimum of several samples, as an excess in it would
/// hide a leak. A CPU's cached objects exceed the tolerance now and then, but not four times for
/// one slab cache.
pub fn grows_by_nothing(warm_up: usize, rounds: usize, mut round: impl FnMut(usize)) {
    (0..warm_up).for_each(&mut round);
    let tolerance = rounds as i64 / 2;
    // The increases during the first half, and the usage at its end.
    let mut both_halves = || {
        let start = Usage::least();
        (0..rounds).for_each(&mut round);
        let middle = Usage::least();
        (0..rounds).for_each(&mut round);
        (middle.grew(&start, tolerance), middle)
    };
    // The increases during the second half, as of now, of what grew in the first, too.
    let in_both = |(first, middle): &(BTreeMap<String, i64>, Usage)| {
        let mut second = Usage::now().grew(middle, tolerance);
        second.retain(|what, _| first.contains_key(what));
        second
    };
    let grown = in_both(&both_halves());
    if grown.is_empty() {
        return;
    }
    println!("  # grew in both halves of {rounds} rounds, so that is done once more: {grown:?}");
    let halves = both_halves();
    let mut again = BTreeMap::new();
    // Frees after a grace period may be late, so this samples for a while.
    let settled = wait::eventually(|| {
        again = in_both(&halves);
        again.retain(|what, _| grown.contains_key(what));
        again.is_empty()
    });
    assert!(settled, "grew in each half of {rounds} rounds: {again:?}");
}
