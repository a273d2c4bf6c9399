#pragma once

#include <optional>

#include "train/config/toml/value.h"

/// These convert the value of another system's key to ours; none if it has no counterpart.
namespace accrue::train::carry {

std::optional<Value> same(const Value& value);
/// A list's only element: [8] -> 8.
std::optional<Value> only_one(const Value& value);
/// A text or a list that is not empty.
std::optional<Value> not_empty(const Value& value);
/// A number that an fp32 holds and that is above 0.
std::optional<Value> above_zero(const Value& value);
/// A share of a run: 0.03 -> "3%".
std::optional<Value> percent(const Value& value);
/// A number of steps, or if below 1 a share of the run.
std::optional<Value> steps_or_part(const Value& value);
std::optional<Value> epochs(const Value& value);   ///< 2 -> "2 epochs"
std::optional<Value> seconds(const Value& value);  ///< 1800 -> "1800 s"
std::optional<Value> minutes(const Value& value);  ///< 10 -> "10 min"

/// The word of precision.compute for "bf16-mixed", "bfloat16", 32. Half precision means bf16 here.
std::optional<Value> precision(const Value& value);
/// The word of optim.kind for "adamw_torch".
std::optional<Value> optimizer(const Value& value);
/// The word of optim.schedule.kind for "constant_with_warmup", "CosineAnnealingLR".
std::optional<Value> schedule(const Value& value);
/// The word of data.order for "random"; a boolean states whether data are shuffled.
std::optional<Value> order(const Value& value);
/// The word of dist.shard for a ZeRO stage, or a strategy by name.
std::optional<Value> shard(const Value& value);

}  // namespace accrue::train::carry
