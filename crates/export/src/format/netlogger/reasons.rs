//! The kernel's names of drop reasons, and their numbers. Two hosts of a log may use one number for two reasons.

use magscope_core::node::DropReason;

/// Maximum number of names; a kernel has about a hundred.
const MOST: usize = 4_096;
/// The first number beyond any kernel's: subsystems have the upper 16 bits, and few are used.
const FIRST_FREE: u32 = 1 << 31;

/// Names and their numbers.
#[derive(Default)]
pub(super) struct Reasons {
    /// What a line has of a reason, and its number in the recording.
    numbered: Vec<(DropReason, u32)>,
}

impl Reasons {
    /// The number in the recording of a reason of a line; `name` is empty without one.
    pub fn number(&mut self, number: u32, name: &str) -> u32 {
        let same = |(reason, _): &&(DropReason, u32)| reason.number == number && reason.name == name;
        if let Some((_, number)) = self.numbered.iter().find(same) {
            return *number;
        }
        if self.numbered.len() >= MOST {
            return number;
        }
        let is_taken = self.numbered.iter().any(|(reason, _)| reason.number == number);
        let own = if is_taken { FIRST_FREE + self.numbered.len() as u32 } else { number };
        self.numbered.push((DropReason { number, name: name.to_owned() }, own));
        own
    }

    /// The names, by number in the recording.
    pub fn named(&self) -> Vec<DropReason> {
        let named = self.numbered.iter().filter(|(reason, _)| !reason.name.is_empty());
        named.map(|(reason, number)| DropReason { number: *number, name: reason.name.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_of_two_hosts_is_two_reasons() {
        let mut reasons = Reasons::default();
        assert_eq!((reasons.number(5, "no_socket"), reasons.number(5, "no_socket")), (5, 5));
        let other = reasons.number(5, "tcp_csum");
        assert!(other >= FIRST_FREE);
        assert_eq!((reasons.number(5, "tcp_csum"), reasons.number(6, "")), (other, 6));
        let named: Vec<_> = reasons.named().into_iter().map(|reason| (reason.number, reason.name)).collect();
        assert_eq!(named, [(5, "no_socket".to_owned()), (other, "tcp_csum".to_owned())]);
    }
}
