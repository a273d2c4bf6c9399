#pragma once

#include <string>

namespace accrue::testing {

/// The text of kOffloadableRun.
inline std::string offloadable_text() { return std::string(4000, 'a') + std::string(4000, 'b'); }

/// A run of three steps, whose matrices are large enough to be offloaded (64 KiB), and whose
/// windows have several micro-batches. Its text is "text.txt".
inline constexpr const char* kOffloadableRun =
    "[run]\nout = \"out\"\nsteps = 3\nseed = 5\n[model]\nkind = \"gpt2\"\nlayers = 2\n"
    "width = 128\nheads = 4\ncontext = 32\ndropout = 0.1\n[data]\ntrain = [\"text.txt\"]\n"
    "[batch]\nsamples = 7\nmicro = 2\n[optim]\nlr = 0.01\nclip = 1.0\nschedule.kind = "
    "\"constant\"\n";

}  // namespace accrue::testing
