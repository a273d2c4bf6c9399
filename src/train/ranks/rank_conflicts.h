#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "train/config/gradient_folding.h"

namespace accrue::train {

/// What `config` states that `world` ranks, 2 or more, with a model on `device` cannot do in this
/// version, or cannot do alike.
std::optional<Conflict> conflict_of(const Config& config, std::int64_t world, c10::Device device);

/// That part of it which is about the kind of device alone: one that tests do not run on.
std::optional<Conflict> conflict_of_device(const Config& config);

/// The usage Error of `world` ranks with that.
Error refusal_of(const Conflict& conflict, std::int64_t world);

/// Whether ranks that run `config` on CPUs can go on when some of them are gone: if all of them
/// have the whole state of the run between two windows, or can have it again, and none of a window
/// that others need.
bool can_lose_ranks(const Config& config);

}  // namespace accrue::train
