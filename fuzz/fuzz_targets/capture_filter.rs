//! A filter of events, as a person types it: whatever the text, an answer; what is understood reads back as the same, and what
//! the kernel walks of it comes to an end and says what the words say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_core::CaptureFilter;
use magscope_probe::filter::names::{Cgroup, Names, NotFound};
use magscope_probe::filter::{FilterError, Program};

/// A host that has everything.
struct Everything;

impl Names for Everything {
    fn uid(&self, name: &str) -> Result<u32, NotFound> {
        Ok(name.len() as u32)
    }
    fn netns(&self, name: &str) -> Result<u32, NotFound> {
        Ok(name.len() as u32)
    }
    fn iface(&self, name: &str) -> Result<Vec<(u32, u32)>, NotFound> {
        Ok((0..=name.len() as u32 % 3).map(|n| (n, n + 1)).collect())
    }
    fn cgroup(&self, name: &str) -> Result<Cgroup, NotFound> {
        Ok(Cgroup { id: name.len() as u64, level: name.len() as u32 % 8 })
    }
    fn container(&self, id: &str) -> Result<Cgroup, NotFound> {
        self.cgroup(id)
    }
}

fuzz_target!(|text: &str| {
    let filter = match CaptureFilter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(error.position >= 1 && error.position <= text.chars().count() + 1, "{error}");
            assert!(error.to_string().len() < 1_000, "an error is one line");
            return;
        }
    };
    let printed = filter.to_string();
    match CaptureFilter::parse(&printed) {
        Ok(again) => assert_eq!(again, filter, "{printed}"),
        // Units and quotes can make it longer than what may be typed.
        Err(error) => assert!(printed.len() > text.len(), "{printed}: {error}"),
    }
    match Program::compile(&filter, &Everything) {
        Ok(program) => {
            for (at, test) in program.tests().iter().enumerate() {
                for next in [test.then, test.otherwise, test.unknown] {
                    assert!(next >= 254 || usize::from(next) > at && usize::from(next) < program.tests().len());
                }
            }
            assert!(program.tests().len() <= 64);
            for answer in [Some(true), Some(false), None] {
                program.walk(|_| answer);
            }
        }
        Err(FilterError::TooLong(tests)) => assert!(tests > 64),
        // The one thing that this host has not: a name that no process can have.
        Err(FilterError::Name { name, because: NotFound::LongComm, .. }) => assert!(name.len() > 15, "{name}"),
        Err(error) => panic!("{printed}: {error}"),
    }
});
