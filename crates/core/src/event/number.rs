//! The numbers of an event whose meaning differs between kinds of events: enums with one variant per meaning.

use std::fmt;

/// A 32-bit number without alignment. An enum of such numbers takes five bytes and not eight, so that an event with
/// two of them still has 72. It is never 0: the enums have `None` for that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number([u8; 4]);

impl Number {
    /// The number as four bytes; `None` for 0.
    #[inline]
    pub(super) const fn new(number: u32) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number.to_ne_bytes())) }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        u32::from_ne_bytes(self.0)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Defines an enum of numbers with one variant per meaning, and the enum of these meanings. A meaning has a number
/// for recordings, which never changes.
macro_rules! numbers {
    (
        $(#[$doc:meta])* $name:ident, $(#[$kind_doc:meta])* $kind:ident,
        $(#[$none_doc:meta])* None,
        $( $(#[$variant_doc:meta])* $variant:ident $accessor:ident = $id:literal, )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[$none_doc])* #[default] None,
            $( $(#[$variant_doc])* $variant(Number), )*
        }

        $(#[$kind_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $kind {
            $(#[$none_doc])* None = 0,
            $( $(#[$variant_doc])* $variant = $id, )*
        }

        impl $kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[Self::None, $( Self::$variant, )*];

            /// The kind with this number in recordings.
            #[inline]
            pub const fn from_id(id: u8) -> Option<Self> {
                match id {
                    0 => Some(Self::None),
                    $( $id => Some(Self::$variant), )*
                    _ => None,
                }
            }

            /// Name of the meaning in tables; empty for none.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::None => "",
                    $( Self::$variant => stringify!($accessor), )*
                }
            }

            /// The number with this meaning; 0 is none.
            #[inline]
            pub const fn of(self, number: u32) -> $name {
                let Some(number) = Number::new(number) else { return $name::None };
                match self {
                    Self::None => $name::None,
                    $( Self::$variant => $name::$variant(number), )*
                }
            }
        }

        impl $name {
            /// The meaning of its number.
            #[inline]
            pub const fn kind(self) -> $kind {
                match self {
                    Self::None => $kind::None,
                    $( Self::$variant(_) => $kind::$variant, )*
                }
            }

            /// The number, for tables with one column per meaning; 0 without one.
            #[inline]
            pub const fn number(self) -> u32 {
                match self {
                    Self::None => 0,
                    $( Self::$variant(number) => number.get(), )*
                }
            }

            $(
                $(#[$variant_doc])*
                /// 0 for another kind.
                #[inline]
                pub const fn $accessor(self) -> u32 {
                    match self { Self::$variant(number) => number.get(), _ => 0 }
                }
            )*
        }
    };
}

pub(super) use numbers;
