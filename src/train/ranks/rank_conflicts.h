#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "train/config/conflict.h"

namespace accrue::train {

/// The setting in `config` that `world` ranks, 2 or more, with a model on `device` cannot execute
/// in this version, or not identically.
std::optional<Conflict> conflict_of(const Config& config, std::int64_t world, c10::Device device);

/// The part of it that concerns only the kind of device: one on which no tests run.
std::optional<Conflict> conflict_of_device(const Config& config);

/// The usage Error of `world` ranks for that conflict.
Error refusal_of(const Conflict& conflict, std::int64_t world);

/// Throws a usage Error if `world` ranks, or one process, are not as many as the config states:
/// stages, or at least so many.
void expect_enough_ranks(const Config& config, std::int64_t world);

/// Throws a usage Error if `world` ranks, or one process, cannot run the config whatever its data
/// and model are. Ranks check it before they wait for each other.
void expect_runnable_by(const Config& config, std::int64_t world);

/// Whether ranks that run `config` on CPUs can continue when some of them are gone: each must have,
/// or be able to get, the whole state of the run between two windows, and hold nothing of a window
/// that the others need.
bool can_lose_ranks(const Config& config);

}  // namespace accrue::train
