#include "train/checkpoint/train_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "train/checkpoint/state_reader.h"

namespace accrue::train {
namespace {

using nlohmann::json;

json rank_to_json(const RankRecord& rank) {
  return {{"micro_batch", rank.micro_batch},
          {"recompute", to_string(rank.recompute)},
          {"seconds_per_sample", rank.seconds_per_sample}};
}

RankRecord rank_from_json(const StateReader& in) {
  return {.micro_batch = in.integer("micro_batch", 1),
          .recompute = parse_recompute(in.text("recompute"), "ranks.recompute"),
          .seconds_per_sample = in.times("seconds_per_sample")};
}

memory::RecoveryState micro_batches_from_json(const StateReader& plan) {
  const std::int64_t planned = plan.integer("micro_batch", 1);
  return {.planned = planned,
          .micro_batch = plan.integer_or("micro_batch_now", 1, planned, planned),
          .quiet_windows = plan.has("quiet_windows") ? plan.integer("quiet_windows", 0) : 0};
}

optim::ScheduleVersion schedule_from_json(const StateReader& in) {
  using enum optim::ScheduleVersion;
  return static_cast<optim::ScheduleVersion>(
      in.integer_or("schedule", static_cast<int>(min_in_last_step),
                    static_cast<int>(min_after_last_step), static_cast<int>(min_in_last_step)));
}

DataIdentity data_from_json(const StateReader& in) {
  return {.fingerprint = in.text("fingerprint"),
          .samples = in.has("samples") ? in.integer("samples", 0) : 0,
          .held_out = in.has("held_out") ? in.integer("held_out", 0) : 0,
          .checked = in.is_set("checked")};
}

json noise_to_json(const adapt::NoiseAverage::State& noise) {
  return {{"windows", noise.windows},
          {"decay", noise.decay},
          {"weight", noise.weight},
          {"squared_weight", noise.squared_weight},
          {"variance", noise.variance},
          {"gradient", noise.gradient},
          {"variance_squared", noise.variance_squared},
          {"gradient_squared", noise.gradient_squared},
          {"product", noise.product}};
}

adapt::NoiseAverage::State noise_from_json(const StateReader& in) {
  const adapt::NoiseAverage::State state{.windows = in.integer("windows", 0),
                                         .decay = in.number("decay"),
                                         .weight = in.number("weight"),
                                         .squared_weight = in.number("squared_weight"),
                                         .variance = in.number("variance"),
                                         .gradient = in.number("gradient"),
                                         .variance_squared = in.number("variance_squared"),
                                         .gradient_squared = in.number("gradient_squared"),
                                         .product = in.number("product")};
  return adapt::NoiseAverage::restored(state).state();
}

json adapt_to_json(const AdaptState& adapt) {
  json out{{"noise", noise_to_json(adapt.noise)},
           {"in_geometry", noise_to_json(adapt.in_geometry)},
           {"measured", adapt.measured},
           {"units", adapt.units},
           {"weight", adapt.weight},
           {"log_decay", adapt.log_decay},
           {"blocks", json::array()},
           {"changes", batch_changes_to_json(adapt.changes)}};
  for (const adapt::NoiseAverage::State& block : adapt.blocks)
    out["blocks"].push_back(noise_to_json(block));
  return out;
}

AdaptState adapt_from_json(const StateReader& in, const std::string& operation) {
  AdaptState adapt{.noise = noise_from_json(in.object("noise")),
                   .in_geometry = noise_from_json(in.object("in_geometry")),
                   .measured = in.integer("measured", 0),
                   .units = in.number_of_at_least_0("units"),
                   .weight = in.number_of_at_least_0("weight"),
                   .log_decay = in.number("log_decay")};
  for (const json& block : in.array("blocks"))
    adapt.blocks.push_back(noise_from_json({block, "adapt.blocks.", operation}));
  for (const json& change : in.array("changes")) {
    const StateReader reader(change, "adapt.changes.", operation);
    adapt.changes.push_back(
        {.window = reader.integer("window", 0), .size = reader.integer("size", 1)});
  }
  return adapt;
}

json written(const TrainState& state) {
  json out{{"step", state.step},
           {"window", state.window},
           {"schedule", static_cast<int>(state.schedule)},
           {"samples", state.samples},
           {"tokens", state.tokens},
           {"elapsed", state.elapsed},
           {"plan",
            {{"micro_batch", state.micro_batches.planned},
             {"recompute", to_string(state.recompute)},
             {"micro_batch_now", state.micro_batches.micro_batch},
             {"quiet_windows", state.micro_batches.quiet_windows}}},
           {"data",
            {{"next_window", state.window},
             {"fingerprint", state.data.fingerprint},
             {"samples", state.data.samples},
             {"held_out", state.data.held_out},
             {"checked", state.data.checked}}}};
  if (state.accelerate) out["plan"]["accelerate"] = *state.accelerate;
  if (state.epoch_began) out["epoch_began"] = *state.epoch_began;
  if (state.ranks.size() > 1)
    for (const RankRecord& rank : state.ranks) out["ranks"].push_back(rank_to_json(rank));
  if (!state.units.empty()) out["units"] = state.units;
  if (state.loss_scale)
    out["loss_scale"] = {{"scale", state.loss_scale->scale},
                         {"good_windows", state.loss_scale->good_windows}};
  if (state.adapt != AdaptState{}) out["adapt"] = adapt_to_json(state.adapt);
  if (state.inner_optimizers) out["inner_optimizers"] = *state.inner_optimizers;
  if (state.evaluated_step) out["evaluated"] = {{"step", *state.evaluated_step}};
  if (state.eval_loss) out["evaluated"]["eval_loss"] = *state.eval_loss;
  if (state.best_eval) out["best"] = {{"eval_loss", *state.best_eval}, {"step", *state.best_step}};
  return out;
}

/// JSON has no numbers that are not finite: they would be written as null, and no resumption
/// accepts that. Such a checkpoint is not written, so that the one before it stays the newest.
void expect_finite(const json& value, const std::string& place) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    throw runtime_error("write a checkpoint", place + " in state.json to be a finite number",
                        std::to_string(value.get<double>()), "--resume from the checkpoint before");
  if (!value.is_structured()) return;
  for (const auto& [name, part] : value.items())
    expect_finite(part, place.empty() ? name : place + "." + name);
}

}  // namespace

json to_json(const TrainState& state) {
  json out = written(state);
  expect_finite(out, "");
  // Sums of losses within a window may be NaN, and are read back as such.
  if (state.middle) out["middle"] = to_json(*state.middle);
  return out;
}

TrainState train_state_from_json(const json& in, const std::string& operation) {
  const StateReader reader(in, "", operation);
  TrainState state;
  state.step = reader.integer("step", 0);
  state.window = reader.integer("window", state.step);
  state.schedule = schedule_from_json(reader);
  state.samples = reader.integer("samples", 0);
  state.tokens = reader.integer("tokens", 0);
  state.elapsed = reader.number_of_at_least_0("elapsed");
  state.epoch_began.reset();
  if (reader.has("epoch_began")) state.epoch_began = reader.number_of_at_least_0("epoch_began");
  const StateReader plan = reader.object("plan");
  state.micro_batches = micro_batches_from_json(plan);
  if (plan.has("recompute"))
    state.recompute = parse_recompute(plan.text("recompute"), "plan.recompute");
  if (plan.has("accelerate")) state.accelerate = plan.is_set("accelerate");
  if (reader.has("ranks"))
    for (const json& rank : reader.array("ranks"))
      state.ranks.push_back(rank_from_json({rank, "ranks.", operation}));
  state.data = data_from_json(reader.object("data"));
  if (reader.has("adapt")) state.adapt = adapt_from_json(reader.object("adapt"), operation);
  if (reader.has("loss_scale")) {
    const StateReader scale = reader.object("loss_scale");
    state.loss_scale = {.scale = scale.number("scale"),
                        .good_windows = scale.integer("good_windows", 0)};
  }
  if (reader.has("units")) state.units = reader.small_integers("units");
  if (reader.has("inner_optimizers"))
    state.inner_optimizers = reader.integer("inner_optimizers", 1);
  if (reader.has("middle"))
    state.middle = window_middle_from_json(reader.object("middle"), state.window);
  if (reader.has("evaluated")) {
    const StateReader evaluated = reader.object("evaluated");
    state.evaluated_step = evaluated.integer("step", 0, state.step);
    if (evaluated.has("eval_loss")) state.eval_loss = evaluated.number("eval_loss");
  }
  if (reader.has("best")) {
    const StateReader best = reader.object("best");
    state.best_eval = best.number("eval_loss");
    state.best_step = best.integer("step", 0, state.step);
  }
  return state;
}

}  // namespace accrue::train
