//! Lengths made coarser, so that what the host counts tells it less.
//!
//! A frame is padded inside, after its rows were packed; a stream gets frames without a batch at
//! its end. The true lengths are sealed.

use coffer_protocol::plan::{Fragment, Hiding, hiding::Pad};
use coffer_sealing::frame::MAX_FRAME_LEN;

use crate::task::Check;

/// No frame is shorter where lengths are powers of two.
const SHORTEST: usize = 512;
/// Lengths that multiples may be of.
const UNITS: std::ops::RangeInclusive<usize> = (4 << 10)..=(16 << 20);

/// Which lengths frames and streams may have. Lengths of streams are those of their frames, without
/// the preamble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Any.
    None,
    /// Powers of two. The frames of a stream are all as long as its longest so far.
    PowersOfTwo,
    /// Multiples of so many bytes, which are a power of two.
    Multiples(usize),
}

impl Padding {
    /// What the fragment asks for.
    pub(crate) fn of(fragment: &Fragment) -> Result<Self, Check> {
        let Some(Hiding { pad, pad_bytes, .. }) = fragment.hiding.as_ref() else {
            return Ok(Self::None);
        };
        let unit = usize::try_from(*pad_bytes).unwrap_or(usize::MAX);
        match Pad::try_from(*pad) {
            Ok(Pad::None) => Ok(Self::None),
            Ok(Pad::Pow2) => Ok(Self::PowersOfTwo),
            Ok(Pad::Fixed) if UNITS.contains(&unit) && unit.is_power_of_two() => {
                Ok(Self::Multiples(unit))
            }
            _ => Err(Check::Malformed("padding")),
        }
    }

    /// The length of a frame that would have `length`, in a stream whose longest frame so far has
    /// `longest`.
    pub(super) fn frame(self, length: usize, longest: usize) -> usize {
        let padded = match self {
            Self::None => length,
            Self::PowersOfTwo => length.max(longest).max(SHORTEST).next_power_of_two(),
            Self::Multiples(unit) => length.max(1).next_multiple_of(unit),
        };
        padded.min(MAX_FRAME_LEN).max(length)
    }

    /// Lengths of the frames without a batch that end a stream of this length; the last of them
    /// ends it. None: its last frame of rows does.
    pub(super) fn fillers(self, length: usize, longest: usize) -> impl Iterator<Item = usize> {
        let filler = self.frame(0, longest);
        let count = match self {
            Self::None | Self::Multiples(_) => 0,
            Self::PowersOfTwo => {
                (length + filler).next_power_of_two().saturating_sub(length) / filler
            }
        };
        std::iter::repeat_n(filler, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_lengths_of_their_class() {
        assert_eq!(Padding::None.frame(777, 0), 777);
        assert_eq!(Padding::PowersOfTwo.frame(1, 0), 512);
        assert_eq!(Padding::PowersOfTwo.frame(513, 0), 1024);
        assert_eq!(Padding::PowersOfTwo.frame(513, 4096), 4096);
        assert_eq!(
            Padding::PowersOfTwo.frame(MAX_FRAME_LEN - 1, 0),
            MAX_FRAME_LEN
        );
        assert_eq!(Padding::Multiples(4096).frame(1, 1 << 20), 4096);
        assert_eq!(Padding::Multiples(4096).frame(4097, 0), 8192);
    }

    #[test]
    fn streams_end_at_powers_of_two() {
        for frames in 1..40 {
            let length = frames * 1024;
            let fillers: Vec<usize> = Padding::PowersOfTwo.fillers(length, 1024).collect();
            assert!(fillers.iter().all(|filler| *filler == 1024));
            assert!((length + fillers.iter().sum::<usize>()).is_power_of_two());
            assert!(!fillers.is_empty());
        }
        assert_eq!(
            Padding::PowersOfTwo.fillers(0, 0).collect::<Vec<_>>(),
            [512]
        );
        assert_eq!(Padding::Multiples(4096).fillers(8192, 4096).count(), 0);
    }

    #[test]
    fn an_unknown_padding_is_refused() {
        let of = |pad: i32, pad_bytes| {
            let hiding = Some(Hiding {
                pad,
                pad_bytes,
                ..Hiding::default()
            });
            Padding::of(&Fragment {
                hiding,
                ..Fragment::default()
            })
        };
        assert_eq!(of(0, 0).unwrap(), Padding::None);
        assert_eq!(of(1, 0).unwrap(), Padding::PowersOfTwo);
        assert_eq!(of(2, 65_536).unwrap(), Padding::Multiples(65_536));
        for (pad, bytes) in [(3, 0), (-1, 0), (2, 0), (2, 5000), (2, 1 << 30)] {
            assert!(of(pad, bytes).is_err(), "{pad} {bytes}");
        }
    }
}
