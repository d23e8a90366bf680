// An engine loop in Go: CGO_CFLAGS=-Iinclude CGO_LDFLAGS="-Lfolder -lspecdec_c" go run loop.go. See loop.c.
package main

// #cgo LDFLAGS: -lspecdec_c
// #include <specdec/more/c/specdec.h>
import "C"
import "fmt"

const vocabulary, gamma, wanted = 4, 3, 20

// The two models: row x is the distribution after token x.
var targetModel = [][]C.float{{0.1, 0.6, 0.2, 0.1}, {0.5, 0.1, 0.3, 0.1}, {0.2, 0.2, 0.1, 0.5}, {0.7, 0.1, 0.1, 0.1}}
var draftModel = [][]C.float{{0.2, 0.5, 0.2, 0.1}, {0.3, 0.2, 0.4, 0.1}, {0.1, 0.2, 0.1, 0.6}, {0.4, 0.2, 0.2, 0.2}}

var message [256]C.char

func check(status C.specdec_status) {
	if status != C.SPECDEC_OK {
		panic(C.GoString(&message[0]))
	}
}

func main() {
	// Drafts and verifications take their random numbers from different streams.
	verifying := C.specdec_philox{seed: 42, stream: 0}
	drafting := C.specdec_philox{seed: 42, stream: 1}
	rule, offsets := C.specdec_rule(C.SPECDEC_BLOCK), []C.int64_t{0, gamma}
	text, calls := []C.int32_t{0}, 0
	for len(text) <= wanted {
		last := text[len(text)-1]
		p, q, tokens := append([]C.float{}, targetModel[last]...), []C.float{}, make([]C.int32_t, gamma)
		for i := range tokens {
			row := draftModel[last]
			check(C.specdec_draw_flat(C.SPECDEC_PROBABILITIES, &row[0], vocabulary, 0, &drafting, &tokens[i],
				&message[0], C.size_t(len(message))))
			last = tokens[i]
			q = append(q, row...)
			p = append(p, targetModel[last]...)
		}
		var verdict C.specdec_verdict
		var status C.specdec_status
		check(C.specdec_verify_flat(C.SPECDEC_PROBABILITIES, &p[0], &q[0], vocabulary, nil, &rule, nil, &tokens[0], nil,
			&offsets[0], 1, &verifying, nil, &verdict, &status, &message[0], C.size_t(len(message))))
		text = append(append(text, tokens[:verdict.accepted]...), verdict.token) // both caches then keep all but the last
		calls++
	}
	for _, token := range text[1 : wanted+1] {
		fmt.Print(token, " ")
	}
	fmt.Println("in", calls, "target calls")
}
