//! The C interface; `include/magnet_scope.h` documents each function.
//!
//! Every function requires the pointers described there; the safety notes below repeat the conditions.
#![allow(unsafe_code)] // C passes raw pointers

use crate::error::Error;
use crate::watch::{Watch, Watched};
use crate::wire::{Averages, Figure, FigureOrReason, Push, Rate, Span, Window};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// `struct ms_options`.
#[repr(C)]
pub struct Options {
    receives: u32,
    seconds: f64,
    change: f64,
    pause_s: f64,
    figure: c_int,
    path: *const c_char,
}

/// `struct ms_span`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CSpan {
    from_ns: u64,
    to_ns: u64,
    calls: u64,
    bytes: u64,
    bytes_per_s: f64,
}

/// `struct ms_averages`.
#[repr(C)]
pub struct CAverages {
    since_ns: u64,
    as_of_ns: u64,
    age_ns: u64,
    lost: u64,
    lost_overall: u64,
    has_received: c_int,
    has_sent: c_int,
    has_latency: c_int,
    received: CSpan,
    received_overall: CSpan,
    sent: CSpan,
    sent_overall: CSpan,
    journeys: u64,
    latency_mean_ns: f64,
    latency_p50_ns: u64,
    latency_p99_ns: u64,
}

/// `ms_watch`.
pub struct CWatch {
    watched: Watched,
    /// The last averages, for queries about an unknown figure.
    last: Option<Averages>,
}

impl From<Span> for CSpan {
    fn from(span: Span) -> Self {
        let Span { from_ns, to_ns, calls, bytes, bytes_per_s } = span;
        CSpan { from_ns, to_ns, calls, bytes, bytes_per_s: bytes_per_s.unwrap_or(f64::NAN) }
    }
}

impl From<&Averages> for CAverages {
    fn from(reported: &Averages) -> Self {
        let spans = |rate: &FigureOrReason<Rate>| {
            rate.get().map_or_else(
                || (CSpan::from(Span::default()), CSpan::from(Span::default())),
                |rate| (rate.window.into(), rate.overall.into()),
            )
        };
        let ((received, received_overall), (sent, sent_overall)) =
            (spans(&reported.received), spans(&reported.sent));
        let latency = reported.latency.get();
        CAverages {
            since_ns: reported.since_ns,
            as_of_ns: reported.as_of_ns,
            age_ns: reported.age_ns,
            lost: reported.lost,
            lost_overall: reported.lost_overall,
            has_received: reported.received.get().is_some().into(),
            has_sent: reported.sent.get().is_some().into(),
            has_latency: latency.is_some().into(),
            received,
            received_overall,
            sent,
            sent_overall,
            journeys: latency.map_or(0, |latency| latency.journeys),
            latency_mean_ns: latency.map_or(f64::NAN, |latency| latency.mean_ns),
            latency_p50_ns: latency.map_or(0, |latency| latency.p50_ns),
            latency_p99_ns: latency.map_or(0, |latency| latency.p99_ns),
        }
    }
}

/// Copies a text to a C buffer, truncated to its size.
///
/// # Safety
/// `to` is null or has room for `size` bytes.
unsafe fn put(text: &str, to: *mut c_char, size: usize) {
    if to.is_null() || size == 0 {
        return;
    }
    let mut end = text.len().min(size - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // SAFETY: `end` is less than `size`, and the text is no part of what C has.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), end);
        to.add(end).write(0);
    }
}

/// Converts C options.
///
/// # Safety
/// `options` is null or points to options, and their path is null or ends with a zero.
unsafe fn with(watch: Watch<'_>, options: *const Options) -> Watch<'_> {
    // SAFETY: guaranteed by the caller.
    let Some(options) = (unsafe { options.as_ref() }) else { return watch };
    let mut watch = match (options.receives, options.seconds) {
        (0, seconds) if seconds > 0.0 => watch.window(Window::Seconds(seconds)),
        (0, _) => watch,
        (receives, _) => watch.window(Window::Receives(receives)),
    };
    if options.change > 0.0 {
        let of = match options.figure {
            1 => Figure::Sent,
            2 => Figure::Latency,
            _ => Figure::Received,
        };
        let least = Push { of, change: options.change, pause_s: options.pause_s };
        let pause = Duration::try_from_secs_f64(least.pause_s).unwrap_or_default();
        watch = watch.on_change(least.change).figure(of, pause);
    }
    if options.path.is_null() {
        return watch;
    }
    // SAFETY: guaranteed by the caller.
    let path = unsafe { CStr::from_ptr(options.path) };
    watch.at(OsStr::from_bytes(path.to_bytes()))
}

/// Starts a watch, or reports the error.
///
/// # Safety
/// `error` is null or has room for `size` bytes.
unsafe fn open(watch: &Watch<'_>, error: *mut c_char, size: usize) -> *mut CWatch {
    match watch.open() {
        Ok(watched) => Box::into_raw(Box::new(CWatch { watched, last: None })),
        Err(because) => {
            // SAFETY: guaranteed by the caller.
            unsafe { put(&because.to_string(), error, size) };
            std::ptr::null_mut()
        }
    }
}

/// `ms_watch_socket`.
///
/// # Safety
/// `fd` is open until this returns; `options` and `error` are as documented in `magnet_scope.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_watch_socket(
    fd: RawFd,
    options: *const Options,
    error: *mut c_char,
    size: usize,
) -> *mut CWatch {
    if fd < 0 {
        // SAFETY: guaranteed by the caller.
        unsafe { put(&format!("{fd} is no file descriptor"), error, size) };
        return std::ptr::null_mut();
    }
    // SAFETY: guaranteed by the caller, and the descriptor is not stored.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: guaranteed by the caller.
    unsafe { open(&with(Watch::socket(&socket), options), error, size) }
}

/// `ms_watch_process`.
///
/// # Safety
/// `options` and `error` are as documented in `magnet_scope.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_watch_process(
    options: *const Options,
    error: *mut c_char,
    size: usize,
) -> *mut CWatch {
    // SAFETY: guaranteed by the caller.
    unsafe { open(&with(Watch::process(), options), error, size) }
}

/// Returns averages or an error to C.
///
/// # Safety
/// The output pointer is null or has room for averages; `error` is null or has room for `size` bytes.
unsafe fn hand_out(
    watch: &mut CWatch,
    result: Result<Option<Averages>, Error>,
    reported: *mut CAverages,
    error: *mut c_char,
    size: usize,
) -> c_int {
    match result {
        Ok(Some(averages)) => {
            if !reported.is_null() {
                // SAFETY: guaranteed by the caller.
                unsafe { reported.write(CAverages::from(&averages)) };
            }
            watch.last = Some(averages);
            1
        }
        Ok(None) => 0,
        Err(because) => {
            // SAFETY: guaranteed by the caller.
            unsafe { put(&because.to_string(), error, size) };
            -1
        }
    }
}

/// `ms_ask`.
///
/// # Safety
/// `watch` is an open watch; the output pointer and `error` are as documented in `magnet_scope.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_ask(
    watch: *mut CWatch,
    reported: *mut CAverages,
    error: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    let Some(watch) = (unsafe { watch.as_mut() }) else { return -1 };
    let result = watch.watched.ask().map(Some);
    // SAFETY: guaranteed by the caller.
    if unsafe { hand_out(watch, result, reported, error, size) } < 0 { -1 } else { 0 }
}

/// `ms_next`.
///
/// # Safety
/// As [`ms_ask`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_next(
    watch: *mut CWatch,
    timeout_ms: c_int,
    reported: *mut CAverages,
    error: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    let Some(watch) = (unsafe { watch.as_mut() }) else { return -1 };
    let result = match u64::try_from(timeout_ms) {
        Ok(ms) => watch.watched.next_within(Duration::from_millis(ms)),
        Err(_) => watch.watched.next().map(Some),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { hand_out(watch, result, reported, error, size) }
}

/// `ms_because`.
///
/// # Safety
/// `watch` is as for [`ms_ask`]; `text` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_because(watch: *const CWatch, figure: c_int, text: *mut c_char, size: usize) {
    // SAFETY: guaranteed by the caller.
    let last = unsafe { watch.as_ref() }.and_then(|watch| watch.last.as_ref());
    let because = match (last, figure) {
        (Some(Averages { received: FigureOrReason::Unknown { unknown }, .. }), 0)
        | (Some(Averages { sent: FigureOrReason::Unknown { unknown }, .. }), 1)
        | (Some(Averages { latency: FigureOrReason::Unknown { unknown }, .. }), 2) => unknown,
        (None, _) => "it was not asked for yet",
        _ => "",
    };
    // SAFETY: guaranteed by the caller.
    unsafe { put(because, text, size) };
}

/// `ms_fd`.
///
/// # Safety
/// `watch` is as for [`ms_ask`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_fd(watch: *const CWatch) -> RawFd {
    // SAFETY: guaranteed by the caller.
    unsafe { watch.as_ref() }.map_or(-1, |watch| watch.watched.as_fd().as_raw_fd())
}

/// `ms_close`.
///
/// # Safety
/// `watch` is null, or as for [`ms_ask`] and used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_close(watch: *mut CWatch) {
    if !watch.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller uses it no more.
        drop(unsafe { Box::from_raw(watch) });
    }
}
