#include "train/checkpoint/window_middle.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "train/checkpoint/state_reader.h"

namespace accrue::train {
namespace {

using nlohmann::json;

std::vector<std::int64_t> all_of(batch::Range range) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(range.size()));
  std::iota(ids.begin(), ids.end(), range.begin);
  return ids;
}

/// Samples are told only where some of the micro-batch were left out: a window may have millions.
json done_to_json(const DoneMicroBatch& done, batch::Range range) {
  const LedgerEntry& entry = done.entry;
  json out{{"status", to_string(entry.status)},
           {"weight", entry.micro.weight},
           {"loss_sum", entry.loss_sum}};
  if (!entry.reason.empty()) out["reason"] = entry.reason;
  if (entry.micro.sample_ids != all_of(range)) out["samples"] = entry.micro.sample_ids;
  if (!done.loss_sums.empty() || !done.measures.empty())
    out["losses"] = {
        {"sums", done.loss_sums}, {"weights", done.loss_weights}, {"measures", done.measures}};
  return out;
}

MicroStatus settled_status(const StateReader& in) {
  const std::string text = in.text("status");
  for (const MicroStatus status : {MicroStatus::committed, MicroStatus::quarantined})
    if (text == to_string(status)) return status;
  throw in.wrong("status", "committed or quarantined", text);
}

DoneMicroBatch done_from_json(const StateReader& in, std::int64_t index, batch::Range range) {
  DoneMicroBatch done;
  done.entry = {
      .micro = {.index = index,
                .sample_ids = in.has("samples") ? in.integers("samples", 0) : all_of(range),
                .weight = in.number_of_at_least_0("weight")},
      .status = settled_status(in),
      .loss_sum = in.number("loss_sum"),
      .reason = in.has("reason") ? in.text("reason") : ""};
  if (in.has("losses")) {
    const StateReader losses = in.object("losses");
    done.loss_sums = losses.numbers("sums");
    done.loss_weights = losses.numbers("weights");
    done.measures = losses.numbers("measures");
  }
  return done;
}

/// Micro-batches follow one another, so their sizes tell where each begins.
json sizes_of(const std::vector<batch::Range>& micro_batches) {
  json sizes = json::array();
  for (const batch::Range range : micro_batches) sizes.push_back(range.size());
  return sizes;
}

std::vector<batch::Range> consecutive(std::int64_t begin, const std::vector<std::int64_t>& sizes) {
  std::vector<batch::Range> ranges;
  for (const std::int64_t size : sizes) {
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

}  // namespace

std::string WindowMiddle::in_words() const {
  return std::to_string(done.size()) + " of " + std::to_string(micro_batches.size()) +
         " micro-batches";
}

json to_json(const WindowMiddle& middle) {
  json out{{"window", middle.window},
           {"loss_scale", middle.loss_scale},
           {"micro_batch", middle.micro_batch},
           {"first_sample", middle.micro_batches.front().begin},
           {"sizes", sizes_of(middle.micro_batches)},
           {"done", json::array()},
           {"contributions", json::object()},
           {"tokens", middle.tokens},
           {"seconds", middle.seconds}};
  for (std::size_t i = 0; i < middle.done.size(); ++i)
    out["done"].push_back(done_to_json(middle.done[i], middle.micro_batches[i]));
  for (const auto& [name, count] : middle.contributions) out["contributions"][name] = count;
  if (!middle.units.empty()) out["units"] = middle.units;
  if (!middle.noise_sums.empty()) out["noise_sums"] = middle.noise_sums;
  if (middle.loss_scaler)
    out["loss_scaler"] = {{"scale", middle.loss_scaler->scale},
                          {"good_windows", middle.loss_scaler->good_windows}};
  for (const batch::UnreadableSample& sample : middle.unreadable)
    out["unreadable"].push_back({{"sample", sample.sample_id}, {"reason", sample.reason}});
  return out;
}

WindowMiddle window_middle_from_json(const StateReader& in, std::int64_t window) {
  WindowMiddle middle{
      .window = in.integer("window", window, window),
      .loss_scale = in.number_of_at_least_0("loss_scale"),
      .micro_batch = in.integer("micro_batch", 1),
      .micro_batches = consecutive(in.integer("first_sample", 0), in.integers("sizes", 1)),
      .done = {},
      .contributions = in.counts("contributions"),
      .tokens = in.integer("tokens", 0),
      .seconds = in.number_of_at_least_0("seconds")};
  for (const StateReader& done : in.objects("done")) {
    const std::size_t place = middle.done.size();
    if (place + 1 >= middle.micro_batches.size())
      throw in.wrong("done",
                     "fewer than the window's " + std::to_string(middle.micro_batches.size()) +
                         " micro-batches",
                     "more");
    middle.done.push_back(
        done_from_json(done, static_cast<std::int64_t>(place), middle.micro_batches[place]));
  }
  if (in.has("units")) middle.units = in.small_integers("units");
  if (in.has("noise_sums")) middle.noise_sums = in.numbers("noise_sums");
  if (in.has("loss_scaler")) {
    const StateReader scaler = in.object("loss_scaler");
    middle.loss_scaler = {.scale = scaler.number("scale"),
                          .good_windows = scaler.integer("good_windows", 0)};
  }
  if (in.has("unreadable"))
    for (const StateReader& sample : in.objects("unreadable"))
      middle.unreadable.push_back(
          {.sample_id = sample.integer("sample", 0), .reason = sample.text("reason")});
  return middle;
}

}  // namespace accrue::train
