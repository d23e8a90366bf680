// For compiling the examples over llama.cpp without an installed llama.cpp: see llama.h.
// SPDX-License-Identifier: MIT
#pragma once

enum ggml_log_level { GGML_LOG_LEVEL_NONE = 0, GGML_LOG_LEVEL_ERROR = 4 };
typedef void (*ggml_log_callback)(enum ggml_log_level level, const char* text, void* user_data);

#ifdef __cplusplus
extern "C"
#endif
    void
    ggml_backend_load_all(void);
