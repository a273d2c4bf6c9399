#include "distributed/group/liveness/lifeline.h"

#include <ATen/record_function.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/helper_thread.h"
#include "distributed/group/network/addresses.h"
#include "distributed/group/network/listening_socket.h"

namespace accrue::distributed {
namespace {

/// Strangers may connect as well; a rank beyond this number is not watched.
constexpr std::size_t kMostWatchers = 64;
constexpr char kGreeting = '!';

/// The order in which they are polled; watchers follow.
enum Polled { kWaking, kListening, kWatched, kWatchers };

Descriptor begin_connection(const std::string& words) {
  try {
    const std::optional<Place> place = place_from_text(words);
    return place ? connecting_to(*place) : Descriptor();
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

Lifeline::Lifeline(const std::string& address)
    : listening_(listening_socket(address, 0)), waking_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!waking_ || ::listen(listening_.get(), SOMAXCONN) != 0)
    throw std::system_error(errno, std::generic_category());
  place_ = to_text(place_of(listening_));
  thread_ = start_thread<std::jthread>([this](const std::stop_token& stop) { serve(stop); });
}

Lifeline::~Lifeline() {
  thread_.request_stop();
  wake();
}

void Lifeline::watch(const std::string& place, SealedTexts texts,
                     std::vector<DeathNotice> notices) {
  {
    const std::scoped_lock lock(mutex_);
    next_.emplace(
        Watched{.place = place, .texts = std::move(texts), .notices = std::move(notices)});
  }
  wake();
}

void Lifeline::wake() { ::eventfd_write(waking_.get(), 1); }

void Lifeline::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled{{waking_.get(), POLLIN, 0},
                               {listening_.get(), POLLIN, 0},
                               {watched_ ? watched_->socket.get() : -1, POLLIN, 0}};
    for (const Descriptor& watcher : watchers_) polled.push_back({watcher.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[kWatched].revents != 0) read_from_watched();
    // A watcher sends nothing: it is gone, or does not belong to the run.
    auto watcher = polled.begin() + kWatchers;
    std::erase_if(watchers_, [&](const Descriptor&) { return (watcher++)->revents != 0; });
    if (polled[kListening].revents != 0) accept_watcher();
    if (polled[kWaking].revents != 0) take_next();
  }
}

void Lifeline::take_next() {
  eventfd_t times = 0;
  ::eventfd_read(waking_.get(), &times);
  const std::scoped_lock lock(mutex_);
  if (!next_) return;
  watched_ = std::exchange(next_, std::nullopt);
  watched_->socket = begin_connection(watched_->place);
}

void Lifeline::accept_watcher() {
  Descriptor watcher(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!watcher) {
    // If descriptors run out this process is watched only by the watchers that it has.
    if (errno == EMFILE || errno == ENFILE) listening_ = Descriptor();
    return;
  }
  if (watchers_.size() >= kMostWatchers) return;
  const bool is_greeted = ::send(watcher.get(), &kGreeting, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
  if (is_greeted) watchers_.push_back(std::move(watcher));
}

/// Only a connection that was greeted reports a death when it ends and another one cannot be made
/// and greeted: a process that has ended refuses that at once.
void Lifeline::read_from_watched() {
  std::array<char, 64> bytes{};
  const auto count = ::recv(watched_->socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) {
    RECORD_USER_SCOPE("ranks: greeted");
    watched_->is_connected = true;
  }
  if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return;
  if (std::exchange(watched_->is_connected, false)) {
    watched_->has_been_connected = true;
    watched_->socket = begin_connection(watched_->place);
    if (watched_->socket) return;
  }
  if (watched_->has_been_connected) report_death();
  watched_.reset();
}

void Lifeline::report_death() {
  try {
    for (const auto& [key, text] : watched_->notices) watched_->texts.write(key, text);
  } catch (const std::exception&) {
    // The store's host is gone, so nothing can be reported.
  }
}

}  // namespace accrue::distributed
