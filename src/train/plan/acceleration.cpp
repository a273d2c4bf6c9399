#include "train/plan/acceleration.h"

#include "accrue/core/error.h"
#include "core/words.h"
#include "train/plan/acceleration_check.h"

namespace accrue::train {
namespace {

std::string operations_in_words(const AcceleratedCalls& calls) {
  std::vector<std::string> kinds;
  const auto add = [&](std::int64_t count, const char* one) {
    if (count > 0) kinds.push_back(counted(count, one));
  };
  add(calls.products, "product");
  add(calls.convolutions, "convolution");
  add(calls.embeddings, "embedding");
  add(calls.layer_norms, "layer norm");
  add(calls.gelus, "GELU");
  add(calls.attentions, "attention");
  add(calls.dropouts, "dropout");
  return listed(kinds, "and");
}

/// Why a model cannot be accelerated in this process; empty if it can.
std::string accelerate_or_tell(models::Model& model) {
  try {
    model.accelerate(true);
    return {};
  } catch (const Error& error) {
    return error.received();
  }
}

constexpr const char* by_accrue = "accrue does the model's operations";
constexpr const char* by_libtorch = "the model's operations are libtorch's";

/// Applies a decision to the model, the config and the remark on it.
void accelerate(Workload& work, bool on, const std::string& reason) {
  work.model->accelerate(on);
  work.config.model.accelerate = on ? Accelerate::on : Accelerate::off;
  work.acceleration = {.on = on, .reason = reason};
}

/// The decision of model.accelerate = "auto".
void decide_by_check(Workload& work) {
  if (const std::string reason = accelerate_or_tell(*work.model); !reason.empty())
    return accelerate(work, false, by_libtorch + (": " + reason));
  const AccelerationCheck check = check_acceleration(work);
  const std::string operations = operations_in_words(check.calls);
  if (!check.agrees) return accelerate(work, false, by_libtorch + (": " + check.finding));
  if (operations.empty())
    return accelerate(work, false, by_libtorch + std::string(": accrue has none of them"));
  accelerate(work, true, "accrue does " + operations + " of a pass: " + check.finding);
}

}  // namespace

void accelerate_as(Workload& work, bool on, const std::string& who_says) {
  accelerate(work, on, (on ? by_accrue : by_libtorch) + (", as " + who_says));
}

void decide_acceleration(Workload& work) {
  if (!work.model->can_be_accelerated()) return;
  switch (work.config.model.accelerate) {
    case Accelerate::automatic:
      return decide_by_check(work);
    case Accelerate::off:
      return accelerate_as(work, false, "model.accelerate says");
    case Accelerate::on: {
      work.model->accelerate(true);
      const AccelerationCheck check = check_acceleration(work);
      return accelerate_as(
          work, true,
          "model.accelerate says" + ((check.agrees ? ": " : ", although ") + check.finding));
    }
  }
}

}  // namespace accrue::train
