//! Values by protocol. Times are counted per protocol, since the hop below a hop differs between protocols.

use magscope_core::Proto;

/// Maximum number of protocols with values of their own. A host uses few; a sender of packets of any protocol must
/// not grow the memory.
pub const MAX_PROTOCOLS: usize = 8;

/// A value for each protocol that was seen: TCP, UDP, then the others by number.
#[derive(Clone, Debug)]
pub struct ByProtocol<T> {
    values: Vec<(Proto, T)>,
}

impl<T> Default for ByProtocol<T> {
    fn default() -> Self {
        ByProtocol { values: Vec::new() }
    }
}

impl<T: Default> ByProtocol<T> {
    /// The value of a protocol, a new one for a new protocol. `None` if [`MAX_PROTOCOLS`] others have one.
    pub fn entry(&mut self, proto: Proto) -> Option<&mut T> {
        let at = match self.values.binary_search_by_key(&order(proto), |(of, _)| order(*of)) {
            Ok(at) => at,
            Err(_) if self.values.len() >= MAX_PROTOCOLS => return None,
            Err(at) => {
                self.values.insert(at, (proto, T::default()));
                at
            }
        };
        self.values.get_mut(at).map(|(_, value)| value)
    }

    /// The value of a protocol.
    pub fn get(&self, proto: Proto) -> Option<&T> {
        let at = self.values.binary_search_by_key(&order(proto), |(of, _)| order(*of)).ok()?;
        self.values.get(at).map(|(_, value)| value)
    }

    /// The protocols with a value, in order.
    pub fn protocols(&self) -> impl Iterator<Item = Proto> + '_ {
        self.values.iter().map(|(proto, _)| *proto)
    }

    /// The values, in the order of their protocols.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(|(_, value)| value)
    }

    /// The values, in the order of their protocols.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().map(|(_, value)| value)
    }
}

/// Sort key of a protocol.
pub const fn order(proto: Proto) -> (u8, u8) {
    match proto {
        Proto::TCP => (0, 0),
        Proto::UDP => (1, 0),
        Proto(number) => (2, number),
    }
}

/// The protocol of all of these, if they are of one.
pub fn only(mut protocols: impl Iterator<Item = Proto>) -> Option<Proto> {
    let first = protocols.next()?;
    protocols.all(|proto| proto == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_order_of_their_protocols_and_bounded() {
        let mut counts = ByProtocol::<u32>::default();
        for proto in [Proto::ICMPV6, Proto::UDP, Proto::ICMP, Proto(2), Proto::TCP, Proto::UDP] {
            *counts.entry(proto).unwrap() += 1;
        }
        let seen: Vec<_> = counts.protocols().collect();
        assert_eq!(seen, [Proto::TCP, Proto::UDP, Proto::ICMP, Proto(2), Proto::ICMPV6]);
        assert_eq!((counts.get(Proto::UDP), counts.get(Proto(3))), (Some(&2), None));
        let more = (100..=255).filter(|number| counts.entry(Proto(*number)).is_some()).count();
        assert_eq!((more, counts.values().count()), (3, MAX_PROTOCOLS));
        assert_eq!(counts.entry(Proto::TCP), Some(&mut 1), "those that are there go on");
    }
}
