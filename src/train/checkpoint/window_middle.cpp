#include "train/checkpoint/window_middle.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "train/checkpoint/state_reader.h"

namespace accrue::train {
namespace {

using nlohmann::json;

std::vector<std::int64_t> all_of(batch::Range range) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(range.size()));
  std::iota(ids.begin(), ids.end(), range.begin);
  return ids;
}

json done_to_json(const DoneMicroBatch& done) {
  const LedgerEntry& entry = done.entry;
  json out{{"status", to_string(entry.status)},
           {"weight", entry.micro.weight},
           {"loss_sum", entry.loss_sum}};
  if (!entry.reason.empty()) out["reason"] = entry.reason;
  if (done.lists_samples) out["samples"] = entry.micro.sample_ids;
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

DoneMicroBatch done_from_json(const StateReader& in, std::int64_t index) {
  DoneMicroBatch done;
  done.lists_samples = in.has("samples");
  done.entry.micro = {
      .index = index,
      .sample_ids = done.lists_samples ? in.integers("samples", 0) : std::vector<std::int64_t>{},
      .weight = in.number_of_at_least_0("weight")};
  done.entry.status = settled_status(in);
  done.entry.loss_sum = in.number("loss_sum");
  if (in.has("reason")) done.entry.reason = in.text("reason");
  if (in.has("losses")) {
    const StateReader losses = in.object("losses");
    done.loss_sums = losses.numbers("sums");
    done.loss_weights = losses.numbers("weights");
    done.measures = losses.numbers("measures");
  }
  return done;
}

/// If micro-batches are consecutive, their sizes determine where each begins.
bool are_consecutive(const std::vector<batch::Range>& micro_batches) {
  return std::ranges::adjacent_find(micro_batches, [](const auto& one, const auto& next) {
           return next.begin != one.end;
         }) == micro_batches.end();
}

json begins_of(const std::vector<batch::Range>& micro_batches) {
  json begins = json::array();
  for (const batch::Range range : micro_batches) begins.push_back(range.begin);
  return begins;
}

json sizes_of(const std::vector<batch::Range>& micro_batches) {
  json sizes = json::array();
  for (const batch::Range range : micro_batches) sizes.push_back(range.size());
  return sizes;
}

std::vector<std::int64_t> sizes_from_json(const StateReader& in) {
  constexpr std::int64_t most = 1'000'000'000;  // a batch has no more samples
  std::vector<std::int64_t> sizes = in.integers("sizes", 1);
  for (const std::int64_t size : sizes)
    if (size > most) throw in.wrong("sizes", "sizes of at most " + std::to_string(most), size);
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

std::vector<batch::Range> scattered(const StateReader& in, const std::vector<std::int64_t>& sizes) {
  const std::vector<std::int64_t> begins = in.integers("begins", 0);
  if (begins.size() != sizes.size())
    throw in.wrong("begins", "as many as there are sizes", begins.size());
  std::vector<batch::Range> ranges;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    ranges.push_back({begins[i], begins[i] + sizes[i]});
  std::vector<batch::Range> sorted = ranges;
  std::ranges::sort(sorted, {}, &batch::Range::begin);
  const auto overlap = std::ranges::adjacent_find(
      sorted, [](const auto& one, const auto& next) { return next.begin < one.end; });
  if (overlap != sorted.end())
    throw in.wrong("begins", "micro-batches without a sample in two of them", overlap->end);
  return ranges;
}

std::vector<batch::Range> ranges_from_json(const StateReader& in) {
  const std::vector<std::int64_t> sizes = sizes_from_json(in);
  if (in.has("begins")) return scattered(in, sizes);
  return consecutive(in.integer("first_sample", 0), sizes);
}

}  // namespace

std::string WindowMiddle::in_words() const {
  return std::to_string(done.size()) + " of " + std::to_string(micro_batches.size()) +
         " micro-batches";
}

LedgerEntry WindowMiddle::entry_of(std::size_t place) const {
  LedgerEntry entry = done.at(place).entry;
  if (!done[place].lists_samples) entry.micro.sample_ids = all_of(micro_batches.at(place));
  return entry;
}

/// A window may have millions of samples, so they are listed only if some were left out.
DoneMicroBatch& WindowMiddle::append(LedgerEntry entry) {
  DoneMicroBatch appended{.entry = std::move(entry)};
  std::vector<std::int64_t>& samples = appended.entry.micro.sample_ids;
  appended.lists_samples = samples != all_of(micro_batches.at(done.size()));
  if (!appended.lists_samples) samples.clear();
  return done.emplace_back(std::move(appended));
}

WindowMiddle nothing_done_of(const WindowMiddle& all) {
  return {.window = all.window,
          .loss_scale = all.loss_scale,
          .micro_batches = {},
          .done = {},
          .units = all.units,
          .noise_sums = std::vector<double>(all.noise_sums.size(), 0)};
}

json to_json(const WindowMiddle& middle) {
  json out{{"window", middle.window},
           {"loss_scale", middle.loss_scale},
           {"micro_batch", middle.micro_batch},
           {"first_sample", middle.micro_batches.empty() ? 0 : middle.micro_batches.front().begin},
           {"sizes", sizes_of(middle.micro_batches)},
           {"done", json::array()},
           {"contributions", json::object()},
           {"tokens", middle.tokens},
           {"seconds", middle.seconds}};
  if (!are_consecutive(middle.micro_batches)) out["begins"] = begins_of(middle.micro_batches);
  if (!middle.exclude.empty()) out["exclude"] = middle.exclude;
  for (const DoneMicroBatch& done : middle.done) out["done"].push_back(done_to_json(done));
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
  WindowMiddle middle = share_middle_from_json(in, window);
  if (middle.done.size() < middle.micro_batches.size()) return middle;
  throw in.wrong(
      "done",
      "fewer than the window's " + std::to_string(middle.micro_batches.size()) + " micro-batches",
      middle.done.size());
}

WindowMiddle share_middle_from_json(const StateReader& in, std::int64_t window) {
  WindowMiddle middle{.window = in.integer("window", window, window),
                      .loss_scale = in.number_of_at_least_0("loss_scale"),
                      .micro_batch = in.integer("micro_batch", 1),
                      .micro_batches = ranges_from_json(in),
                      .done = {},
                      .contributions = in.counts("contributions"),
                      .tokens = in.integer("tokens", 0),
                      .seconds = in.number_of_at_least_0("seconds")};
  for (const StateReader& done : in.objects("done"))
    middle.done.push_back(done_from_json(done, std::ssize(middle.done)));
  if (in.has("exclude"))
    for (const json& file : in.array("exclude")) {
      if (!file.is_string()) throw in.wrong("exclude", "names of files", file);
      middle.exclude.push_back(file.get<std::string>());
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
