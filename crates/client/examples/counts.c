/* Reads from a socket, counts, and asks the agent what it has seen of that. */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <magnet_scope.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 250
#define BYTES 1000

static void must(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

/* A connection to itself: who sends, who reads. */
static void connection(int ends[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	must(!bind(listener, (void *)&at, length) && !listen(listener, 1), "listen");
	must(!getsockname(listener, (void *)&at, &length), "getsockname");
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(!connect(ends[0], (void *)&at, length), "connect");
	ends[1] = accept(listener, NULL, NULL);
	must(ends[1] >= 0 && !close(listener), "accept");
}

int main(void)
{
	char error[512], bytes[BYTES];
	int ends[2];
	connection(ends);
	struct ms_options options = { .receives = 100, .change = 0.1 };
	ms_watch *watch = ms_watch_socket(ends[1], &options, error, sizeof error);
	struct ms_averages now;
	if (!watch || ms_ask(watch, &now, error, sizeof error) < 0) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	if (!now.has_received) {
		ms_because(watch, MS_RECEIVED, error, sizeof error);
		printf("not known yet: %s\n", error);
	}
	uint64_t counted = 0;
	for (int n = 0; n < MESSAGES; n++) {
		must(send(ends[0], bytes, sizeof bytes, 0) == BYTES, "send");
		ssize_t got = recv(ends[1], bytes, sizeof bytes, MSG_WAITALL);
		must(got > 0, "recv");
		counted += got;
	}
	/* What was captured arrives some hundredths of a second later. */
	for (int tries = 0; tries < 500 && (!now.has_received || now.received_overall.bytes < counted); tries++) {
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		if (ms_ask(watch, &now, error, sizeof error) < 0) {
			fprintf(stderr, "%s\n", error);
			return 1;
		}
	}
	printf("%llu of %llu bytes, %.0f bytes/s over the last %llu receives\n",
	       (unsigned long long)now.received_overall.bytes, (unsigned long long)counted, now.received.bytes_per_s,
	       (unsigned long long)now.received.calls);
	struct pollfd poller = { .fd = ms_fd(watch), .events = POLLIN };
	must(poller.fd >= 0 && poll(&poller, 1, 0) >= 0, "poll");
	if (ms_next(watch, 10000, &now, error, sizeof error) == 1)
		printf("a change came\n");
	ms_close(watch);
	options.path = "/nowhere";
	if (!ms_watch_process(&options, error, sizeof error))
		printf("nobody is at /nowhere: %s\n", error);
	return 0;
}
