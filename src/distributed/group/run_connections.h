#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accrue/core/error.h"
#include "accrue/distributed/launch.h"
#include "distributed/group/roll_call.h"
#include "distributed/group/sealed_texts.h"
#include "distributed/group/waiting_note.h"

namespace accrue::distributed {

/// The operation of ranks until they have met, for errors.
inline constexpr const char* kConnect = "connect to the other ranks";

/// A rank's connections to the key-value store of its run. Rank 0 hosts the store, as long as this
/// object exists, or the launcher's agent does. Each connection waits only for its own answers.
class RunConnections {
 public:
  /// Connects, or hosts the store; `note` is for a process that waits for its host. Throws a
  /// runtime Error if it cannot within `timeout`, and a usage Error if other machines could write
  /// into the store and there is no run token, or if the store belongs to another run.
  RunConnections(const Launch& launch, std::chrono::milliseconds timeout, WaitingNote& note);

  /// Finds out with which processes this one was started.
  RollCall roll_call(int rank, int world) const { return {notes_, rank, world, run_id_}; }
  /// The name of the start whose ranks meet here. Set it before using any texts.
  void set_start(const std::string& name) { folder_ = "accrue/" + name; }
  /// The run's name, which rank 0 draws; texts of another run with the same token cannot be opened
  /// in this one. Set it before using any texts, except those that transmit it.
  void set_run(std::string name) { run_ = std::move(name); }

  /// Texts of the run, or of a part of it, for notes and for heartbeats.
  SealedTexts notes(const std::string& part = {}) const { return texts(notes_, part); }
  SealedTexts heartbeats(const std::string& part = {}) const { return texts(heartbeat_, part); }
  /// Texts of the run, for a lifeline.
  SealedTexts deaths() const { return texts(life_, {}); }
  /// The address of this machine by which it reaches the store.
  std::string own_address() const { return life_->own_address(); }
  /// Stores by which the ranks of an engine find each other.
  c10::intrusive_ptr<c10d::Store> engine(const std::string& part) const;
  c10::intrusive_ptr<c10d::Store> device_engine(const std::string& part) const;

  bool hosts_the_store() const { return hosts_the_store_; }
  const std::string& place() const { return place_; }  ///< where the store is, for messages
  std::string host_is_gone() const;                    ///< for messages

  /// How long an answer of the store may still arrive after its time is over.
  static constexpr std::chrono::milliseconds kAnswer{1200};

 private:
  void connect(const Launch& launch, std::chrono::milliseconds timeout, WaitingNote& note);
  void await_store(const Launch& launch, Deadline until, WaitingNote& note) const;
  Error not_reached(const std::string& reason) const;
  std::string folder(const std::string& part) const;
  SealedTexts texts(const std::shared_ptr<StoreClient>& client, const std::string& part) const;
  c10::intrusive_ptr<c10d::Store> store(const std::shared_ptr<StoreClient>& client,
                                        const std::string& part) const;

  bool hosts_the_store_, agent_hosts_;
  std::string token_, run_id_, place_, folder_, run_;
  c10::intrusive_ptr<c10d::Store> host_;
  std::shared_ptr<StoreClient> notes_, heartbeat_, life_, engine_, device_;
};

}  // namespace accrue::distributed
