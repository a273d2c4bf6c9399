#include "distributed/group/liveness/heartbeat.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"
#include "core/helper_thread.h"

namespace accrue::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBeat{400};
/// How often waits are checked.
constexpr milliseconds kLook{50};
/// A host that ended may have ended well: what it sent before is read first.
constexpr milliseconds kAfterTheHost{1200};
/// How long an exchange with the store may take to end.
constexpr milliseconds kLastWord{1000};

}  // namespace

/// Shared by the thread and the heartbeat: it outlives the heartbeat if the thread does.
struct Heartbeat::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  bool ended = false;  ///< whether the thread has ended
  bool is_lost = false;
  bool has_verdict = false;
  std::optional<std::string> lost_one;
  bool has_applicants = false;
  std::int64_t announced = 0;  ///< by this rank or another
  Deadline answered = Clock::now();
};

Heartbeat::Heartbeat(RankNotes notes, milliseconds patience, std::shared_ptr<Membership> membership)
    : patience_(patience), shared_(std::make_shared<Shared>()) {
  watcher_ = start_thread<std::jthread>([this](const std::stop_token& stop) { watch(stop); });
  if (watcher_.joinable())
    talker_ = start_thread([notes = std::move(notes), membership = std::move(membership),
                            shared = shared_] { talk(notes, membership.get(), *shared); });
  if (!talker_.joinable())
    throw runtime_error("join ranks", "two threads that show the others that this rank lives",
                        "a system that starts none",
                        "a higher limit on processes (ulimit -u, pids.max of the control group)");
}

Heartbeat::~Heartbeat() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kLastWord, [&] { return shared_->ended; });
  lock.unlock();
  ended ? talker_.join() : talker_.detach();
}

void Heartbeat::talk(const RankNotes& notes, Membership* membership, Shared& shared) {
  std::unique_lock lock(shared.mutex);
  try {
    for (std::int64_t count = 0; !shared.stop; ++count) {
      lock.unlock();
      {
        RECORD_USER_SCOPE("ranks: beat");
        notes.beat(count);
      }
      const bool has_verdict = notes.has_verdict();
      std::optional<std::string> lost_one = notes.lost_one();
      const std::int64_t announced = exchange_announced(notes, shared);
      lock.lock();
      shared.answered = Clock::now();
      shared.has_verdict = has_verdict;
      const bool is_news = lost_one && !shared.lost_one;
      shared.lost_one = std::move(lost_one);
      if (is_news) {
        lock.unlock();
        RECORD_USER_SCOPE("ranks: lost");
        lock.lock();
      }
      if (membership != nullptr && !shared.stop) {
        lock.unlock();
        const bool has_applicants = membership->has_applicants();
        lock.lock();
        shared.has_applicants = has_applicants;
      }
      shared.changed.wait_for(lock, kBeat,
                              [&] { return shared.stop || shared.announced > announced; });
    }
  } catch (const std::exception&) {
    lock.lock();
    shared.is_lost = true;
  }
  shared.ended = true;
  shared.changed.notify_all();
}

/// Ranks that announce something at once overwrite each other: a rank that reads a smaller number
/// than it knows writes again.
std::int64_t Heartbeat::exchange_announced(const RankNotes& notes, Shared& shared) {
  const std::int64_t read = notes.announced();
  std::unique_lock lock(shared.mutex);
  const std::int64_t known = shared.announced = std::max(shared.announced, read);
  lock.unlock();
  if (known > read) notes.announce(known);
  return known;
}

void Heartbeat::announce(std::int64_t number) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->announced = std::max(shared_->announced, number);
  shared_->changed.notify_all();
}

std::int64_t Heartbeat::announced() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->announced;
}

std::optional<std::string> Heartbeat::lost_one() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->lost_one;
}

bool Heartbeat::has_applicants() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->has_applicants;
}

milliseconds Heartbeat::silence() const {
  const std::scoped_lock lock(shared_->mutex);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - shared_->answered);
}

bool Heartbeat::is_over() const {
  const std::scoped_lock lock(shared_->mutex);
  const auto silence = Clock::now() - shared_->answered;
  return shared_->has_verdict || silence > (shared_->is_lost ? kAfterTheHost : patience_);
}

void Heartbeat::watch(const std::stop_token& stop) {
  std::unique_lock lock(guards_mutex_);
  while (!stop.stop_requested()) {
    const bool over = is_over();
    const Deadline now = Clock::now();
    for (Guard* guard : guards_)
      if (over || now > guard->until_)
        if (const auto interrupt = std::exchange(guard->interrupt_, nullptr)) interrupt();
    stopped_.wait_for(lock, stop, kLook, [] { return false; });
  }
}

Heartbeat::Guard::Guard(Heartbeat& heartbeat, Deadline until, std::function<void()> interrupt)
    : heartbeat_(heartbeat), until_(until), interrupt_(std::move(interrupt)) {
  const std::scoped_lock lock(heartbeat_.guards_mutex_);
  heartbeat_.guards_.push_back(this);
}

Heartbeat::Guard::~Guard() {
  const std::scoped_lock lock(heartbeat_.guards_mutex_);
  std::erase(heartbeat_.guards_, this);
}

}  // namespace accrue::distributed
