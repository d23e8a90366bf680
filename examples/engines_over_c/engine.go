// SPDX-License-Identifier: MIT

// An engine's loop in Go over the C interface: CGO_CFLAGS=-I... CGO_LDFLAGS=-L... go run engine.go
//
// The target and the draft model are tables: what follows a token depends on that token alone. engine.py and engine.rs write the
// same text.
package main

// #cgo LDFLAGS: -lspecdec_c
// #include <specdec/c/specdec.h>
import "C"

import (
	"fmt"
	"log"
	"strings"
)

const vocab, gamma, length = 8, 4, 40

func row(last, a, b, m int) []C.float {
	weights, sum := [vocab]int{}, 0
	for x := range weights {
		weights[x] = 1 + (a*last+b*x)%m
		sum += weights[x]
	}
	numbers := make([]C.float, vocab)
	for x, w := range weights {
		numbers[x] = C.float(float64(w) / float64(sum))
	}
	return numbers
}

func target(last C.int32_t) []C.float { return row(int(last), 7, 3, 5) }
func draft(last C.int32_t) []C.float  { return row(int(last), 5, 2, 7) }

func main() {
	var message [200]C.char
	check := func(status C.specdec_status) {
		if status != C.SPECDEC_OK {
			log.Fatal(C.GoString(&message[0]))
		}
	}
	// The verification must not see the draft's numbers.
	drafting, judging := C.specdec_philox{seed: 42, stream: 1}, C.specdec_philox{seed: 42}
	text, calls := []C.int32_t{0}, 0
	for len(text) < length {
		drafted, draftRows, last := []C.int32_t{}, []C.float{}, text[len(text)-1]
		targetRows := target(last) // these and the following rows come from one call of the target
		for len(drafted) < gamma {
			q := draft(last)
			check(C.specdec_draw_flat(C.SPECDEC_PROBABILITIES, &q[0], vocab, 1, &drafting, &last, &message[0], 200))
			drafted, draftRows = append(drafted, last), append(draftRows, q...)
			targetRows = append(targetRows, target(last)...)
		}
		var verdict C.specdec_verdict
		var status C.specdec_status
		rule, offsets := C.specdec_rule(C.SPECDEC_BLOCK), [2]C.int64_t{0, gamma}
		C.specdec_verify_flat(C.SPECDEC_PROBABILITIES, &targetRows[0], &draftRows[0], vocab, nil, &rule, nil, &drafted[0], nil,
			&offsets[0], 1, &judging, nil, &verdict, &status, &message[0], 200)
		check(status)
		text = append(append(text, drafted[:verdict.accepted]...), verdict.token)
		calls++
	}
	fmt.Println(strings.Trim(fmt.Sprint(text), "[]"))
	fmt.Println(len(text)-1, "tokens in", calls, "calls")
}
