#include "distributed/group/store/store_owner.h"

#include <optional>

#include "accrue/core/error.h"
#include "distributed/group/launch/run_id.h"
#include "distributed/group/network/addresses.h"
#include "distributed/group/store/open_store.h"

namespace accrue::distributed {
namespace {

constexpr const char* kOwner = "accrue/owner";

/// A run in its ranks' store: the number of its ranks, and its name.
struct Owner {
  std::string world, run_id;

  std::string text() const { return world + ' ' + run_id; }
  std::string in_words() const {
    return (run_id.empty() ? "a run without a name" : "run '" + run_id + "'") + " of " + world +
           " ranks";
  }
};

Owner owner_of(const Launch& launch) { return {std::to_string(launch.world), launch.run_id}; }

/// The text of another version has no name.
Owner owner_from_text(const std::string& text) {
  const std::size_t gap = text.find(' ');
  return {text.substr(0, gap), gap == std::string::npos ? "" : text.substr(gap + 1)};
}

std::string suggestion_for(const Owner& theirs) {
  return "another MASTER_PORT for one of the two runs; or, to join that one, " +
         (theirs.run_id.empty() ? std::string("no ") + kRunId
                                : kRunId + ("='" + theirs.run_id + "'")) +
         " and WORLD_SIZE=" + theirs.world;
}

}  // namespace

void state_owner(StoreClient& client, const Launch& launch) {
  client.set(kOwner, owner_of(launch).text());
}

bool is_owned_by(StoreClient& client, const Launch& launch) {
  const std::optional<std::string> text =
      client.has(kOwner) ? client.get(kOwner) : std::optional<std::string>();
  if (!text) return false;
  const Owner own = owner_of(launch);
  if (*text == own.text()) return true;
  const Owner theirs = owner_from_text(*text);
  throw usage_error(kConnect,
                    "the store at " + place_text(launch.master_addr, launch.master_port) +
                        " to be that of " + own.in_words(),
                    "that of " + theirs.in_words(), suggestion_for(theirs));
}

}  // namespace accrue::distributed
