#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/descriptor.h"
#include "distributed/group/store/sealed_texts.h"

namespace accrue::distributed {

/// A connection that ends with the process at its other end, for whatever reason: it reports a
/// death at once. Nothing is sent on it but a greeting, without an answer. If a machine is gone, or
/// a cable is cut, no connection ends; signs of life detect that. If only the connection ended, as
/// something between two machines may cause, the process greets again.
///
/// Each process lets others connect to it and watches one other, as long as this object exists, on
/// a separate thread that never waits for a peer. If the system cannot start one, this process
/// watches no other and accepts no greetings: then only signs of life show a death.
class Lifeline {
 public:
  /// Listens at `address`, one of this machine's, at a port chosen by the system. Throws if it
  /// cannot.
  explicit Lifeline(const std::string& address);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// Where others watch this process.
  const std::string& place() const { return place_; }

  /// The text to write once a process has ended.
  struct DeathNotice {
    std::string key, text;
  };
  /// From now on watches the process whose place() is `place`, instead of another: writes `notices`
  /// into `texts` once it has ended. If it cannot connect (a firewall), it never does. `texts` have
  /// their own connection.
  void watch(const std::string& place, SealedTexts texts, std::vector<DeathNotice> notices);

 private:
  struct Watched {
    std::string place;
    SealedTexts texts;
    std::vector<DeathNotice> notices;
    Descriptor socket = {};
    bool is_connected = false;
    bool has_been_connected = false;  ///< then it is asked once more whether it lives
  };

  void serve(const std::stop_token& stop);
  void wake();
  void take_next();
  void accept_watcher();
  void read_from_watched();
  void report_death();

  Descriptor listening_;
  Descriptor waking_;  ///< an eventfd: next_ is set, or the thread has to end
  std::string place_;
  std::mutex mutex_;
  std::optional<Watched> next_;       ///< the next to watch; guarded by the mutex
  std::optional<Watched> watched_;    ///< used by the thread alone, as watchers are
  std::vector<Descriptor> watchers_;  ///< those that watch this process
  std::jthread thread_;
};

}  // namespace accrue::distributed
