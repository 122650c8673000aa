// SPDX-License-Identifier: GPL-2.0

//! An unmodified .NET runtime, which writes its events to a descriptor that a collector passes to
//! it. The test is the collector, and reads the records from perf's rings.

mod records;
mod runtime;

use crate::harness::tests;
use crate::kit::abi::REGISTRATIONS;
use crate::kit::child::Word;
use crate::kit::os::UNPRIVILEGED;
use crate::kit::{child, event, wait};
use records::{method, Heap, Listener, Method, COLLECTED, COMPILED, COMPILING};
use runtime::{Runtime, HEAP_DUMP, JIT, PROVIDER};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

tests!("dotnet":
    compiles_in_other_namespaces.skip_if(runtime::obstacle).limit(240),
    two_collectors_and_one_is_killed.skip_if(runtime::obstacle).limit(240),
    heap_dump.skip_if(runtime::obstacle).limit(240),
);

/// The words of the listed registration of an event that only one process has.
fn registration(event: &str) -> Option<Vec<String>> {
    let listing = fs::read_to_string(REGISTRATIONS).expect(REGISTRATIONS);
    let mut lines = listing.lines().map(|line| line.split(' '));
    let line = lines.find(|line| line.clone().next() == Some(event))?;
    Some(line.map(String::from).collect())
}

fn wait_unregistered(event: &str) {
    wait::until("the end of a session", || registration(event).is_none());
}

fn methods(listener: &Listener, id: u16) -> BTreeSet<Method> {
    listener.with_id(id).map(method).collect()
}

fn compiles_in_other_namespaces() {
    let mut listener = Listener::new("st_dn_jit");
    let mut runtime = Runtime::start("st_dn_jit");
    let session = runtime.collect("st_dn_jit", JIT);
    let words = registration("st_dn_jit").expect("a registration");
    assert_eq!(words[4..], ["31/32", "set"]);
    let process = format!("/proc/{}", words[1]);
    assert_eq!(
        fs::metadata(&process).expect("the runtime").uid(),
        UNPRIVILEGED
    );
    for namespace in ["user", "mnt", "pid"] {
        let of = |process: &str| fs::read_link(format!("{process}/ns/{namespace}")).unwrap();
        assert_ne!(of(&process), of("/proc/self"), "{namespace}");
    }

    runtime.resume();
    listener.wait_for(COMPILED, 500);
    drop(session);
    wait_unregistered("st_dn_jit");
    listener.take();
    assert!(runtime.runs());
    let (begun, done) = (methods(&listener, COMPILING), methods(&listener, COMPILED));
    assert_eq!(
        done.difference(&begun).next(),
        None,
        "a method that was not begun"
    );
    // A method that the runtime itself calls at its start.
    let is_setup = |(_, class, name): &Method| class == "System.AppContext" && name == "Setup";
    assert!(done.iter().any(is_setup));
    let ids: BTreeSet<u16> = listener.told.iter().map(|told| told.id).collect();
    for id in ids {
        let mut metadata = listener.with_id(id).filter_map(|told| told.metadata());
        assert_eq!(metadata.next().as_deref(), Some(PROVIDER), "of {id}");
    }
}

fn two_collectors_and_one_is_killed() {
    let (mut first, mut second) = (Listener::new("st_dn_first"), Listener::new("st_dn_second"));
    let mut runtime = Runtime::start("st_dn_two");
    let mut collector = child::fork(|line| {
        let _session = runtime.collect("st_dn_first", JIT);
        line.say(Word::Begun);
        line.hear(Word::TheEnd);
    });
    collector.line.hear(Word::Begun);
    let session = runtime.collect("st_dn_second", JIT);
    runtime.resume();
    first.wait_for(COMPILED, 200);
    collector.kill();
    wait_unregistered("st_dn_first");
    first.take();
    // Both listeners get all records.
    second.take();
    let (had, all) = (methods(&first, COMPILED), methods(&second, COMPILED));
    assert_eq!(
        had.difference(&all).next(),
        None,
        "a method that the other lacks"
    );
    assert!(runtime.runs());

    // The second session continues, and so does one whose event the runtime makes. A later listener
    // gets no metadata, which is written once.
    let later = runtime.collect("st_dn_later", JIT);
    second.wait_for(COMPILED, all.len() + 100);
    Listener::of("st_dn_later").wait_for(COMPILING, 1);
    let (mut alone, mut beside) = (Listener::of("st_dn_later"), Listener::of("st_dn_second"));
    for listener in [&mut alone, &mut beside] {
        listener.wait_for(COMPILING, 20);
        let mut told = listener.with_id(COMPILING);
        assert!(
            told.all(|told| told.metadata().is_none()),
            "metadata for {}",
            listener.event
        );
    }
    let count = first.told.len();
    first.take();
    assert_eq!(first.told.len(), count, "records after the end");
    drop((alone, beside));
    drop((session, later));
    event::wait_gone("st_dn_later");
    wait_unregistered("st_dn_second");
    assert!(runtime.runs());
}

fn heap_dump() {
    let (mut jit, mut heap) = (Listener::new("st_dn_heap_jit"), Listener::new("st_dn_heap"));
    let mut runtime = Runtime::start("st_dn_heap");
    let session = runtime.collect("st_dn_heap_jit", JIT);
    runtime.resume();
    jit.wait_for(COMPILED, 600);
    drop(session);
    let session = runtime.collect("st_dn_heap", HEAP_DUMP);
    heap.wait_for(COLLECTED, 1);
    drop(session);
    wait_unregistered("st_dn_heap");
    heap.take();
    assert!(runtime.runs());

    // Records of a size that C drops.
    let longest = heap.told.iter().map(|told| told.payload.len()).max();
    assert!(longest > Some(8 << 10), "the longest has {longest:?} bytes");
    let heap = Heap::of(&heap.told);
    assert!(heap.objects.len() > 200, "{} objects", heap.objects.len());
    let references: u64 = heap.objects.iter().sum();
    assert_eq!(references as usize, heap.references, "references of all");
}
