#pragma once

#include <optional>

#include "train/config/toml/value.h"

/// How a value that another system's key has becomes one of ours; none where it does not.
namespace accrue::train::carry {

std::optional<Value> same(const Value& value);
/// A list's only element: [8] -> 8.
std::optional<Value> only_one(const Value& value);
/// A text or a list that is not empty.
std::optional<Value> not_empty(const Value& value);
/// A number that an fp32 holds and that is above 0.
std::optional<Value> above_zero(const Value& value);
/// A part of a run: 0.03 -> "3%".
std::optional<Value> percent(const Value& value);
/// Steps, or below 1 a part of the run.
std::optional<Value> steps_or_part(const Value& value);
std::optional<Value> epochs(const Value& value);   ///< 2 -> "2 epochs"
std::optional<Value> seconds(const Value& value);  ///< 1800 -> "1800 s"
std::optional<Value> minutes(const Value& value);  ///< 10 -> "10 min"

/// "bf16-mixed", "bfloat16", 32: as precision.compute says it. Half precision is bf16 here.
std::optional<Value> precision(const Value& value);
/// "adamw_torch": as optim.kind says it.
std::optional<Value> optimizer(const Value& value);
/// "constant_with_warmup", "CosineAnnealingLR": as optim.schedule.kind says it.
std::optional<Value> schedule(const Value& value);
/// "random": as data.order says it; a boolean says whether it is shuffled.
std::optional<Value> order(const Value& value);
/// A ZeRO stage, or a strategy by name: as dist.shard says it.
std::optional<Value> shard(const Value& value);

}  // namespace accrue::train::carry
