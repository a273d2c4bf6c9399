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

/// What ranks do until they have met, in errors.
inline constexpr const char* kConnect = "connect to the other ranks";

/// A rank's connections to the key-value store of its run, which rank 0 or the launcher's agent
/// hosts, as long as this lives where rank 0 does. Each waits for its own answers alone.
class RunConnections {
 public:
  /// Connects, or hosts the store; `note` is for who waits for its host. Throws a runtime Error
  /// if it cannot within `timeout`, and a usage Error if other machines could write into the
  /// store and there is no run token, or where the store is another run's.
  RunConnections(const Launch& launch, std::chrono::milliseconds timeout, WaitingNote& note);

  /// By which it is found out with whom this process was started.
  RollCall roll_call(int rank, int world) const { return {notes_, rank, world, run_id_}; }
  /// The name of the start whose ranks meet here. To be told before all texts.
  void set_start(const std::string& name) { folder_ = "accrue/" + name; }
  /// The run's name, which rank 0 draws; what was written in another one with the same token is of
  /// no use in this. To be told before all texts but those that tell it.
  void set_run(std::string name) { run_ = std::move(name); }

  /// Texts of the run, or of a part of it, for notes and for heartbeats.
  SealedTexts notes(const std::string& part = {}) const { return texts(notes_, part); }
  SealedTexts heartbeats(const std::string& part = {}) const { return texts(heart_, part); }
  /// Texts of the run, for a lifeline.
  SealedTexts deaths() const { return texts(life_, {}); }
  /// The address of this machine by which it reaches the store.
  std::string own_address() const { return life_->own_address(); }
  /// Stores by which the ranks of an engine find each other.
  c10::intrusive_ptr<c10d::Store> engine(const std::string& part) const;
  c10::intrusive_ptr<c10d::Store> device_engine(const std::string& part) const;

  bool hosts_the_store() const { return hosts_the_store_; }
  const std::string& place() const { return place_; }  ///< if the store is, for messages
  std::string host_is_gone() const;                    ///< for messages

  /// How long an answer of the store may be under way when the time for it is over.
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
  std::shared_ptr<StoreClient> notes_, heart_, life_, engine_, device_;
};

}  // namespace accrue::distributed
