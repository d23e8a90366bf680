// Macros that headers of systems and libraries define, with their meaning there or a worse one. The library's headers are
// compiled after it. (min, max and verify are refused in a sentence: see specdec/platform.hpp.)
// SPDX-License-Identifier: MIT
#pragma once

// <windows.h>
#define near
#define far
#define small char
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define ERROR 0
#define TRUE 1
#define FALSE 0

// <complex.h>
#define I _Complex_I

// Qt
#define slots
#define signals public
#define emit
#define foreach(x, y) for (x : y)
#define forever for (;;)

// X11
#define None 0L
#define Bool int
#define Status int
#define Success 0
#define Always 2

// AssertMacros.h of macOS, Unreal Engine
#define check(x) ((void)(x))
#define require(x, label) \
  if (!(x)) goto label
#define ensure(x) (x)

// Objective-C
#define nil nullptr
#define YES 1
#define NO 0

// Linux kernel style, <sys/sysmacros.h>, <termios.h>, <sys/param.h>
#define likely(x) (x)
#define unlikely(x) (x)
#define major(device) 0
#define minor(device) 0
#define B0 0
#define PAGE_SIZE 4096
