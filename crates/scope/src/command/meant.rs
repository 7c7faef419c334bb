//! Actions that depend on the current view: up and down, open, next.

use super::FrontEndCommand;
use crate::controls::Top;
use crate::flows::GROUPINGS;
use crate::lane::Place;
use crate::{Action, Controls, CursorId, MeasureSpan, Roll};

/// Rows of a page.
const PAGE: i32 = 10;

impl FrontEndCommand {
    /// The action of a command that depends on the view; `None` if only a front end can act.
    pub fn action(self, controls: &Controls) -> Option<Action> {
        let picture = controls.view.is_on_picture();
        Some(match self {
            Self::Move(by) if picture => Action::SelectJourney(by),
            Self::Move(by) => Action::SelectRow(i32::from(by)),
            Self::Page(by) if picture => Action::SelectLane(by),
            Self::Page(by) => Action::SelectRow(i32::from(by) * PAGE),
            Self::Open
                if picture
                    && controls.top == Top::Nothing
                    && let Some(Place::Forwarder(number)) = controls.lane =>
            {
                Action::ToggleForwarder(number)
            }
            // Without a selection the headline has something to open.
            Self::Open if picture && controls.journey.is_none() && controls.top == Top::Nothing => {
                Action::ShowEvidence
            }
            Self::Open if picture => Action::ToggleInspector,
            Self::Order => Action::OrderFlows(controls.order.next()),
            // From a group that was opened back to the groups.
            Self::Group if let Some(within) = &controls.within => Action::GroupFlows(within.by),
            Self::Group => {
                let at = GROUPINGS.iter().position(|by| *by == controls.flows_by);
                Action::GroupFlows(GROUPINGS.get(at.map_or(0, |at| at + 1)).copied().unwrap_or_default())
            }
            Self::Roll => Action::SetRoll(match controls.roll {
                Roll::Auto => Roll::On,
                Roll::On => Roll::Off,
                Roll::Off => Roll::Auto,
            }),
            Self::Over => Action::MeasureOver(match controls.over {
                MeasureSpan::Picture => MeasureSpan::Cursors,
                MeasureSpan::Cursors => MeasureSpan::Picture,
            }),
            Self::OtherCursor => Action::ChooseCursor(match controls.cursors.map(|cursors| cursors.chosen) {
                Some(CursorId::A) => CursorId::B,
                _ => CursorId::A,
            }),
            Self::Open => Action::TakeRow,
            _ => return None,
        })
    }
}
