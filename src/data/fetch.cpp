#include "data/fetch.h"

#include <string>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

using Numbers = std::vector<std::int64_t>;

bool lacks_samples(const batch::MicroBatch& micro) {
  return !micro.sample_ids.empty() || micro.is_empty();
}

/// Replaces the positions in `indices` that Source::fetch() set by `ids`.
batch::MicroBatch with_ids(batch::MicroBatch micro, Numbers ids) {
  if (lacks_samples(micro)) {
    for (std::int64_t& place : micro.sample_ids) place = ids[static_cast<std::size_t>(place)];
    for (batch::UnreadableSample& sample : micro.unreadable)
      sample.sample_id = ids[static_cast<std::size_t>(sample.sample_id)];
  } else {
    micro.sample_ids = std::move(ids);
  }
  const Numbers of_spans = micro.spans.empty() ? Numbers() : batch::sequence_ids(micro);
  for (std::size_t i = 0; i < micro.spans.size(); ++i) micro.spans[i].sample_id = of_spans[i];
  return micro;
}

std::int64_t first_usable(const Source& source) {
  std::string reason;
  for (std::int64_t index = 0; index < source.size(); ++index) {
    const batch::MicroBatch sample = source.fetch(std::span(&index, 1));
    if (!sample.is_empty()) return index;
    if (reason.empty() && !sample.unreadable.empty())
      reason = ": " + sample.unreadable.front().reason;
  }
  throw usage_error("read the data", "a sample that can be used",
                    "none among " + std::to_string(source.size()) + reason, "other data");
}

}  // namespace

batch::MicroBatch fetch_as(const Source& source, std::span<const std::int64_t> indices,
                           Numbers ids) {
  return with_ids(source.fetch(indices), std::move(ids));
}

batch::MicroBatch fetch_drawn_as(const Source& source, std::span<const std::int64_t> indices,
                                 Numbers draws) {
  batch::MicroBatch micro = source.fetch_drawn(indices, draws);
  return with_ids(std::move(micro), std::move(draws));
}

batch::MicroBatch fetch_full(const Source& source, std::span<const std::int64_t> indices,
                             Numbers ids) {
  batch::MicroBatch micro = source.fetch(indices);
  if (indices.empty() || !lacks_samples(micro)) return with_ids(std::move(micro), std::move(ids));
  const Numbers& places = micro.sample_ids;
  const std::int64_t stand_in =
      places.empty() ? first_usable(source) : indices[static_cast<std::size_t>(places.front())];
  Numbers usable(indices.size(), stand_in);
  for (const std::int64_t place : places)
    usable[static_cast<std::size_t>(place)] = indices[static_cast<std::size_t>(place)];
  return fetch_as(source, usable, std::move(ids));
}

batch::MicroBatch fetch_one(const Source& source) {
  const std::int64_t index = first_usable(source);
  return fetch_as(source, std::span(&index, 1), {index});
}

}  // namespace accrue::data
