// An engine with many requests in Go: CGO_CFLAGS=-Iinclude CGO_LDFLAGS="-Lfolder -lspecdec_c" go run requests.go. See requests.c.
package main

// #cgo LDFLAGS: -lspecdec_c
// #include <specdec/more/c/specdec.h>
import "C"
import (
	"fmt"
	"unsafe"
)

const vocabulary, gamma, wanted = 4, 2, 8

// The two models: row x is the distribution after token x.
var targetModel = [][]C.float{{0.1, 0.6, 0.2, 0.1}, {0.5, 0.1, 0.3, 0.1}, {0.2, 0.2, 0.1, 0.5}, {0.7, 0.1, 0.1, 0.1}}
var draftModel = [][]C.float{{0.2, 0.5, 0.2, 0.1}, {0.3, 0.2, 0.4, 0.1}, {0.1, 0.2, 0.1, 0.6}, {0.4, 0.2, 0.2, 0.2}}

var message [256]C.char
var requests *C.specdec_requests

// The random numbers of request r have streams of their own: 2r for its verifications, 2r + 1 for its drafts.
var verifying, drafting [4]C.specdec_philox

func check(status C.specdec_status) {
	if status != C.SPECDEC_OK {
		panic(C.GoString(&message[0]))
	}
}

func add(first C.int32_t) C.int64_t {
	var number C.int64_t
	check(C.specdec_requests_add(requests, &first, 1, 0, wanted, gamma, nil, 0, &number, &message[0], C.size_t(len(message))))
	return number
}

// One round for some requests. Returns those that are still there.
func round(live []C.int64_t) []C.int64_t {
	drafts, offsets := []C.int32_t{}, []C.int64_t{0}
	for _, request := range live {
		var text C.specdec_text
		check(C.specdec_requests_text(requests, request, &text, &message[0], C.size_t(len(message))))
		last := unsafe.Slice(text.tokens, text.size)[text.size-1]
		for i := 0; i < gamma; i++ {
			check(C.specdec_draw_flat(C.SPECDEC_PROBABILITIES, &draftModel[last][0], vocabulary, 0, &drafting[request], &last,
				&message[0], C.size_t(len(message))))
			drafts = append(drafts, last)
		}
		offsets = append(offsets, C.int64_t(len(drafts)))
	}
	var out C.specdec_proposal
	check(C.specdec_requests_propose(requests, &live[0], C.int64_t(len(live)), &drafts[0], &offsets[0], &out,
		&message[0], C.size_t(len(message))))

	p, q, numbers := []C.float{}, make([]C.float, 0, 1), []C.specdec_philox{}
	for _, feed := range unsafe.Slice(out.feeds, out.size) { // an engine cuts its caches here
		tokens := unsafe.Slice(feed.tokens, feed.size)
		for i := feed.size - feed.rows; i < feed.size; i++ {
			p = append(p, targetModel[tokens[i]]...)
			if i+1 < feed.size {
				q = append(q, draftModel[tokens[i]]...)
			}
		}
		numbers = append(numbers, verifying[feed.request])
	}
	rules, verdicts, statuses := make([]C.specdec_rule, out.size), make([]C.specdec_verdict, out.size), make([]C.specdec_status, out.size)
	check(C.specdec_verify_flat(C.SPECDEC_PROBABILITIES, &p[0], &q[:1][0], vocabulary, nil, &rules[0], nil, out.tokens, nil,
		out.offsets, out.size, &numbers[0], nil, &verdicts[0], &statuses[0], &message[0], 0))
	for i, request := range unsafe.Slice(out.requests, out.size) {
		verifying[request] = numbers[i]
	}

	var finished *C.specdec_finished
	var ended C.int64_t
	check(C.specdec_requests_settle(requests, out.requests, &verdicts[0], out.size, &finished, &ended,
		&message[0], C.size_t(len(message))))
	for _, done := range unsafe.Slice(finished, ended) {
		fmt.Printf("request %d:", done.request)
		for _, token := range unsafe.Slice(done.tokens, done.size) {
			fmt.Print(" ", token)
		}
		fmt.Println(" in", done.target_calls, "target calls")
		left := live[:0]
		for _, request := range live {
			if request != done.request {
				left = append(left, request)
			}
		}
		live = left
	}
	return live
}

func main() {
	for r := range verifying {
		verifying[r] = C.specdec_philox{seed: 42, stream: C.uint64_t(2 * r)} // SPECDEC_BLOCK is rule 0
		drafting[r] = C.specdec_philox{seed: 42, stream: C.uint64_t(2*r + 1)}
	}
	check(C.specdec_requests_create(&requests, vocabulary, 0, &message[0], C.size_t(len(message))))
	live := round([]C.int64_t{add(0), add(1), add(2)})
	var paused *C.specdec_paused
	check(C.specdec_requests_pause(requests, live[1], &paused, &message[0], C.size_t(len(message))))
	live[1] = live[2]
	check(C.specdec_requests_fork(requests, live[0], 0, &live[2], &message[0], C.size_t(len(message))))
	for len(live) > 0 {
		live = round(live)
	}
	check(C.specdec_requests_resume(requests, &paused, 0, &message[0], C.size_t(len(message))))
	for live = []C.int64_t{1}; len(live) > 0; {
		live = round(live)
	}
	C.specdec_requests_destroy(requests)
}
