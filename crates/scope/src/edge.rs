//! Where the picture stands against the newest instant, in words: a stopped picture never looks like a live one.

use crate::format::short_duration;

/// Where the picture stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Edge {
    /// At the newest instant, and it moves on.
    #[default]
    Live,
    /// Held for a journey while events go on.
    Held {
        /// Age of the picture, nanoseconds.
        behind_ns: u64,
    },
    /// Held for the selected journey while events go on.
    Selected {
        /// Age of the picture, nanoseconds.
        behind_ns: u64,
    },
    /// Stopped, or moved to earlier, while events go on.
    Stopped {
        /// Age of the picture, nanoseconds.
        behind_ns: u64,
    },
    /// The past of a live session plays.
    Past {
        /// Age of the picture, nanoseconds.
        behind_ns: u64,
    },
    /// A recording plays.
    Playing,
    /// A recording stands still.
    Paused,
    /// A recording is still being read.
    Reading {
        /// Share of the recording that has been read, 0 to 1.
        read: f64,
    },
    /// Hosts whose connection is lost.
    Away {
        /// Their names.
        hosts: String,
    },
    /// There are no more data.
    Ended,
}

impl Edge {
    /// The state in words, and where a key leads back, that key: `key_of` names the key of a command.
    pub fn words(&self, key_of: impl Fn(&str) -> String) -> String {
        let back = |command: &str| match key_of(command) {
            key if key.is_empty() => String::new(),
            key => format!(" · {key}: live"),
        };
        match self {
            Self::Live => "▶ live".to_owned(),
            Self::Held { behind_ns } => {
                format!("▶ live, picture {} old", short_duration(*behind_ns))
            }
            Self::Selected { behind_ns } => {
                format!("▶ selected, {} old{}", short_duration(*behind_ns), back("back"))
            }
            Self::Stopped { behind_ns } => {
                format!("❚❚ stopped, {} old{}", short_duration(*behind_ns), back("follow"))
            }
            Self::Past { behind_ns } => {
                format!("▶ playing, {} old{}", short_duration(*behind_ns), back("follow"))
            }
            Self::Playing => "▶ replay".to_owned(),
            Self::Paused => "❚❚ paused".to_owned(),
            Self::Reading { read } => format!("… catching up, {:.0} % read", (read * 100.0).floor()),
            Self::Away { hosts } => format!("✕ connection lost: {hosts}"),
            Self::Ended => "■ ended".to_owned(),
        }
    }

    /// True if the picture is not at the newest instant, or nothing newer arrives.
    pub const fn is_unusual(&self) -> bool {
        !matches!(self, Self::Live | Self::Playing)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// One of each kind.
    pub fn all() -> [Edge; 10] {
        [
            Edge::Live,
            Edge::Held { behind_ns: 3_000_000_000 },
            Edge::Selected { behind_ns: 3_000_000_000 },
            Edge::Stopped { behind_ns: 3_000_000_000 },
            Edge::Past { behind_ns: 3_000_000_000 },
            Edge::Playing,
            Edge::Paused,
            Edge::Reading { read: 0.376 },
            Edge::Away { hosts: "web-1".to_owned() },
            Edge::Ended,
        ]
    }

    #[test]
    fn no_two_states_look_alike() {
        let words: Vec<String> = all()
            .iter()
            .map(|edge| edge.words(|name| if name == "follow" { "G" } else { "Esc" }.to_owned()))
            .collect();
        for (at, one) in words.iter().enumerate() {
            assert!(words.iter().skip(at + 1).all(|other| other != one), "{one}");
        }
        assert_eq!(words[3], "❚❚ stopped, 3 s old · G: live");
        assert_eq!(words[4], "▶ playing, 3 s old · G: live");
        assert_eq!(words[7], "… catching up, 37 % read");
        assert_eq!(words[8], "✕ connection lost: web-1");
    }
}
