/*
 * Running averages of one's own traffic, asked of a magnet-scope agent on this host. docs/client.md says what the figures say.
 *
 *     char error[512];
 *     struct ms_options options = { .receives = 1000 };
 *     ms_watch *watch = ms_watch_socket(fd, &options, error, sizeof error);
 *     struct ms_averages now;
 *     if (!watch || ms_ask(watch, &now, error, sizeof error) < 0)
 *         fprintf(stderr, "%s\n", error);
 *     else if (now.has_received)
 *         printf("%.0f bytes/s\n", now.received.bytes_per_s);
 *     ms_close(watch);
 *
 * Link with -lmagscope_client. A watch belongs to one thread at a time. MIT OR Apache-2.0.
 */
#ifndef MAGNET_SCOPE_H
#define MAGNET_SCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ms_watch ms_watch;

enum ms_figure { MS_RECEIVED = 0, MS_SENT = 1, MS_LATENCY = 2 };

/* What is 0 is as usual. */
struct ms_options {
	uint32_t receives; /* window: the last so many receives, up to 10,000 [1,000] */
	double seconds;	   /* or the last so many seconds, where `receives` is 0 */
	double change;	   /* notify when a figure has changed by this part, 0.1 for a tenth [not at all] */
	double pause_s;	   /* and no sooner than this after the last time [0.02] */
	int figure;	   /* which one: enum ms_figure */
	const char *path;  /* the agent's socket [$MAGNET_SCOPE_WATCH, or /run/magnet-scope-watch/watch.sock] */
};

/* Calls and bytes within a stretch of time, by the events' clock: CLOCK_MONOTONIC. */
struct ms_span {
	uint64_t from_ns, to_ns;
	uint64_t calls, bytes;
	double bytes_per_s; /* NaN where no time has passed */
};

struct ms_averages {
	uint64_t since_ns;	/* from when on it has counted */
	uint64_t as_of_ns;	/* up to when events are in it */
	uint64_t age_ns;	/* how long ago that was */
	uint64_t lost;		/* records missing since the windows began: figures may be too low */
	uint64_t lost_overall;	/* and since `since_ns` */
	int has_received, has_sent, has_latency; /* 0: unknown, ms_because() says why */
	struct ms_span received, received_overall;
	struct ms_span sent, sent_overall;
	uint64_t journeys;
	double latency_mean_ns;
	uint64_t latency_p50_ns, latency_p99_ns;
};

/*
 * Begin to watch a socket that this process holds, or this process. `options` may be NULL. NULL where that fails: why is in `error`, if
 * that is not NULL, cut to `size` bytes with its end.
 */
ms_watch *ms_watch_socket(int fd, const struct ms_options *options, char *error, size_t size);
ms_watch *ms_watch_process(const struct ms_options *options, char *error, size_t size);

/* How it stands now. 0, or -1 and why. */
int ms_ask(ms_watch *watch, struct ms_averages *averages, char *error, size_t size);

/* The next change: 1; 0 where none came within so many milliseconds (-1: wait for it); -1 where there will be none, and why. */
int ms_next(ms_watch *watch, int timeout_ms, struct ms_averages *averages, char *error, size_t size);

/* Why a figure of the last answer is unknown; "" where it is known. */
void ms_because(const ms_watch *watch, int figure, char *text, size_t size);

/* To be polled for reading; then ms_next with a time-out of 0 until it says 0. */
int ms_fd(const ms_watch *watch);

/* Ends it. */
void ms_close(ms_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
