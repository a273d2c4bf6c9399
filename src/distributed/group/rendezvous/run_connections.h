#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "accrue/distributed/launch.h"
#include "distributed/group/launch/waiting_note.h"
#include "distributed/group/rendezvous/roll_call.h"
#include "distributed/group/store/open_store.h"
#include "distributed/group/store/sealed_texts.h"

namespace accrue::distributed {

/// A rank's connections to the key-value store of its run, and the folder and the seal of what the
/// run writes there.
class RunConnections {
 public:
  /// Connects, and throws, as open_store() does.
  RunConnections(const Launch& launch, std::chrono::milliseconds timeout, WaitingNote& note);

  /// Finds out with which processes this one was started.
  RollCall roll_call(int rank, int world) const { return {store_.notes, rank, world, run_id_}; }
  /// The name of the start whose ranks meet here. Set it before using any texts.
  void set_start(const std::string& name) { folder_ = "accrue/" + name; }
  /// The run's name, which rank 0 draws; texts of another run with the same token cannot be opened
  /// in this one. Set it before using any texts, except those that transmit it.
  void set_run(std::string name) { run_ = std::move(name); }

  /// Texts of the run, or of a part of it, for notes and for heartbeats.
  SealedTexts notes(const std::string& part = {}) const { return texts(store_.notes, part); }
  SealedTexts heartbeats(const std::string& part = {}) const {
    return texts(store_.heartbeat, part);
  }
  /// Texts of the run, for a lifeline.
  SealedTexts deaths() const { return texts(store_.life, {}); }
  /// The address of this machine by which it reaches the store.
  std::string own_address() const { return store_.life->own_address(); }
  /// Stores by which the ranks of an engine find each other.
  c10::intrusive_ptr<c10d::Store> engine(const std::string& part) const;
  c10::intrusive_ptr<c10d::Store> device_engine(const std::string& part) const;

  bool hosts_the_store() const { return store_.is_hosted_here; }
  const std::string& place() const { return store_.place; }  ///< where the store is, for messages
  std::string host_is_gone() const { return store_.why_gone(); }  ///< for messages
  /// How long an answer of the store may still arrive after its time is over.
  std::chrono::milliseconds longest_silence() const { return store_.longest_silence; }

 private:
  std::string folder(const std::string& part) const;
  SealedTexts texts(const std::shared_ptr<StoreClient>& client, const std::string& part) const;
  c10::intrusive_ptr<c10d::Store> store(const std::shared_ptr<StoreClient>& client,
                                        const std::string& part) const;

  std::string token_, run_id_, folder_, run_;
  OpenStore store_;
};

}  // namespace accrue::distributed
