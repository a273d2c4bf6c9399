#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/descriptor.h"
#include "distributed/group/sealed_texts.h"

namespace accrue::distributed {

/// A connection that ends with the process at its other end, whatever that died of: by it a death
/// is known at once. Nothing is said on it but a greeting, and nobody answers. A machine that is
/// gone, or a cable that is cut, ends no connection; signs of life tell of those. If the
/// connection alone ended, as something between two machines may do, the process greets again.
///
/// Each process lets others connect to it and watches one other, as long as this lives, on a
/// thread of its own that never waits for a peer. If the system starts none, this process watches
/// nobody and greets nobody: signs of life alone tell then.
class Lifeline {
 public:
  /// Listens at `address`, one of this machine's, at a port of the system's choice. Throws if it
  /// cannot.
  explicit Lifeline(const std::string& address);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// What others watch this process by.
  const std::string& place() const { return place_; }

  /// What is to be written once a process has ended.
  struct Word {
    std::string key, text;
  };
  /// Watches the process whose place() is `place` from now on, instead of another: writes `words`
  /// into `texts` once it has ended. If no connection comes about, as behind a firewall, it
  /// never does. `texts` have a connection of their own.
  void watch(const std::string& place, SealedTexts texts, std::vector<Word> words);

 private:
  struct Watched {
    std::string place;
    SealedTexts texts;
    std::vector<Word> words;
    Descriptor socket = {};
    bool is_connected = false;
    bool has_been_connected = false;  ///< and is asked once more whether it lives
  };

  void serve(const std::stop_token& stop);
  void wake();
  void take_next();
  void let_guest_in();
  void listen_to_watched();
  void tell_of_death();

  Descriptor listening_;
  Descriptor waking_;  ///< an eventfd: there is a next_, or the thread is to end
  std::string place_;
  std::mutex mutex_;
  std::optional<Watched> next_;     ///< whom to watch instead; guarded by the mutex
  std::optional<Watched> watched_;  ///< the thread's own, as guests are
  std::vector<Descriptor> guests_;  ///< who watches this process
  std::jthread thread_;
};

}  // namespace accrue::distributed
