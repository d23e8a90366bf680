// A translation unit of its own, whose users need nothing of specdec.
#pragma once

/// How many tokens of a draft of two are accepted, all of which must be.
int accepted_by_hand();
