#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accrue/distributed/launch.h"
#include "distributed/group/launch/waiting_note.h"
#include "distributed/group/store/store_client.h"

namespace accrue::distributed {

/// The operation of ranks until they have met, for errors.
inline constexpr const char* kConnect = "connect to the other ranks";

/// A rank's connections to the key-value store of its run. Each waits only for its own answers.
struct OpenStore {
  bool is_hosted_here = false;            ///< by this process, as long as `engines` exists
  std::string place;                      ///< where it is, for messages
  std::function<std::string()> why_gone;  ///< for messages, once it no longer answers
  /// A store that was silent for longer does not come back.
  std::chrono::milliseconds longest_silence{};
  c10::intrusive_ptr<c10d::Store> engines;  ///< engines' counters and waits
  std::shared_ptr<StoreClient> notes, heartbeat, life, engine, device;
};

/// Connects to the store that `launch` names, or hosts it; `note` is for a process that waits for
/// it. The only place that knows which kinds of stores there are.
///
/// Throws a runtime Error if that fails within `timeout`, and a usage Error if other machines could
/// write into the store and there is no run token, or if the store belongs to another run.
OpenStore open_store(const Launch& launch, std::chrono::milliseconds timeout, WaitingNote& note);

}  // namespace accrue::distributed
