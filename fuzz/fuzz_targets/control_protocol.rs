//! What comes to a capture's control socket, line by line: a change that prints as it is read, or an error in one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_probe::Setting;

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        match text.trim().parse::<Setting>() {
            Ok(setting) => {
                let printed = setting.to_string();
                assert!(!printed.contains(['\n', '\r']), "a session's words are one line: {printed:?}");
                // Units and quotes can make it longer than what may be typed.
                if printed.len() <= 16 << 10 {
                    assert_eq!(printed.parse(), Ok(setting), "{printed}");
                }
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.len() < 1_000, "an error is one line: {message}");
            }
        }
    }
});
