#include "accrue/data/fetch.h"

#include <numeric>
#include <string>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

using Numbers = std::vector<std::int64_t>;

bool lacks_samples(const batch::MicroBatch& micro) {
  return !micro.sample_ids.empty() || micro.is_empty();
}

/// Of places that Source::fetch told, the ids.
void name_samples(batch::MicroBatch& micro, const Numbers& ids) {
  for (std::int64_t& place : micro.sample_ids) place = ids[static_cast<std::size_t>(place)];
  for (batch::LeftOut& sample : micro.left_out)
    sample.sample_id = ids[static_cast<std::size_t>(sample.sample_id)];
}

std::int64_t first_usable(const Source& source) {
  std::string reason;
  for (std::int64_t index = 0; index < source.size(); ++index) {
    const batch::MicroBatch sample = source.fetch(std::span(&index, 1));
    if (!sample.is_empty()) return index;
    if (reason.empty() && !sample.left_out.empty()) reason = ": " + sample.left_out.front().reason;
  }
  throw usage_error("read the data", "a sample that can be used",
                    "none among " + std::to_string(source.size()) + reason, "other data");
}

}  // namespace

batch::MicroBatch fetch_as(const Source& source, std::span<const std::int64_t> indices,
                           Numbers ids) {
  batch::MicroBatch micro = source.fetch(indices);
  if (lacks_samples(micro)) {
    name_samples(micro, ids);
  } else {
    micro.sample_ids = std::move(ids);
  }
  for (std::size_t i = 0; i < micro.spans.size(); ++i)
    micro.spans[i].sample_id = micro.sample_ids[i];
  return micro;
}

batch::MicroBatch fetch_full(const Source& source, std::span<const std::int64_t> indices,
                             Numbers ids) {
  Numbers places(indices.size());
  std::iota(places.begin(), places.end(), 0);
  const batch::MicroBatch micro = fetch_as(source, indices, places);
  const Numbers& rows = micro.sample_ids;
  if (rows.size() == indices.size()) return fetch_as(source, indices, std::move(ids));
  const std::int64_t stand_in =
      rows.empty() ? first_usable(source) : indices[static_cast<std::size_t>(rows.front())];
  Numbers usable(indices.size(), stand_in);
  for (const std::int64_t place : rows)
    usable[static_cast<std::size_t>(place)] = indices[static_cast<std::size_t>(place)];
  return fetch_as(source, usable, std::move(ids));
}

batch::MicroBatch fetch_one(const Source& source) {
  const std::int64_t index = first_usable(source);
  return fetch_as(source, std::span(&index, 1), {index});
}

}  // namespace accrue::data
