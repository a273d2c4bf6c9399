#include "distributed/group/store/etcd_client.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "accrue/core/error.h"
#include "core/helper_thread.h"
#include "distributed/group/store/text_seal.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// Between two rounds in which no member answered.
constexpr milliseconds kBetweenRounds{50};
constexpr int kLongestAttempt = 8;
/// How long a client that ends waits for the writes that are left.
constexpr milliseconds kLastWrites{500};

milliseconds time_until(Deadline until) {
  return std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
}

std::int64_t counter_in(const std::optional<EtcdValue>& found, const std::string& key) {
  std::int64_t number = 0;
  if (!found) return number;
  const char* const end = found->value.data() + found->value.size();
  const auto [read, error] = std::from_chars(found->value.data(), end, number);
  if (error != std::errc() || read != end)
    throw std::runtime_error("what stands in the store under '" + key + "' is no number");
  return number;
}

Error unreachable(const EtcdCluster& cluster) {
  return runtime_error("use the ranks' store", "an answer of one of the etcd members",
                       "none: " + cluster.failures(),
                       "etcdctl endpoint status --cluster; most of the members have to run");
}

}  // namespace

/// The members that are asked for one answer, in turn.
class EtcdClient::Attempts {
 public:
  Attempts(EtcdCluster& cluster, Deadline until, const std::stop_token& stop)
      : cluster_(cluster), until_(until), stop_(stop), time_(cluster.options().attempt) {}

  std::size_t member() const { return member_; }
  milliseconds time() const {
    return std::max(milliseconds(1), std::min(time_, time_until(until_)));
  }

  /// The member's answer was of no use. Throws if there is no time for another one.
  void fail(const std::string& reason, bool is_too_long = false) {
    too_long_ = is_too_long ? too_long_ + 1 : 0;
    // All members answered alike: the value itself is too long.
    if (too_long_ == cluster_.members().size()) throw AnswerTooLong();
    // A failure at the deadline is of the deadline: the member's earlier one says more.
    const bool is_over = std::chrono::steady_clock::now() >= until_;
    cluster_.leave(member_, reason, /*keeps_earlier=*/is_over);
    if (++failed_ % cluster_.members().size() == 0) end_round();
    if (stop_.stop_requested() || std::chrono::steady_clock::now() >= until_)
      throw unreachable(cluster_);
    member_ = cluster_.current();
  }

 private:
  void end_round() {
    time_ = std::min(2 * time_, kLongestAttempt * cluster_.options().attempt);
    std::this_thread::sleep_for(std::clamp(time_until(until_), milliseconds(0), kBetweenRounds));
  }

  EtcdCluster& cluster_;
  Deadline until_;
  const std::stop_token& stop_;
  milliseconds time_;
  std::size_t member_ = cluster_.current(), failed_ = 0, too_long_ = 0;
};

EtcdClient::EtcdClient(std::shared_ptr<EtcdCluster> cluster) : cluster_(std::move(cluster)) {}

EtcdClient::~EtcdClient() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLastWrites, [&] { return writes_.empty(); });
  lock.unlock();
  writer_.request_stop();
}

std::string EtcdClient::post(const char* path, const std::string& request, milliseconds timeout,
                             const std::stop_token& stop, std::size_t member) {
  const std::scoped_lock lock(one_at_a_time_);
  HttpClient::Answer answer = http_.post(cluster_->url(member) + path, request, timeout, stop);
  check_answer(answer.status, answer.body);
  return std::move(answer.body);
}

/// The result of `read` for the first answer that it can read.
template <class Read>
auto EtcdClient::ask(const char* path, const std::string& request, Deadline until,
                     const std::stop_token& stop, Read read) {
  Attempts attempts(*cluster_, until, stop);
  while (true) {
    try {
      auto result = read(post(path, request, attempts.time(), stop, attempts.member()));
      cluster_->answered(attempts.member());
      return result;
    } catch (const EtcdRefusal& refusal) {
      if (!refusal.is_lost_lease() && !refusal.is_lease_held())
        cluster_->leave(attempts.member(), refusal.what());
      throw;
    } catch (const AnswerTooLong& error) {
      attempts.fail(error.what(), true);
    } catch (const std::exception& error) {
      attempts.fail(error.what());
    }
  }
}

template <class Read>
auto EtcdClient::ask_after_writes(const char* path, const std::string& request, Read read) {
  const Deadline until = patience();
  finish_writes(until);
  return ask(path, request, until, {}, std::move(read));
}

/// For requests that put something. A lease that is gone, with what was below it, since no rank was
/// there to renew it, is made again.
template <class Read>
auto EtcdClient::ask_with_lease(const char* path, const std::string& request, Deadline until,
                                const std::stop_token& stop, Read read) {
  if (cluster_->takes_renewal()) renew_lease(until, stop);
  while (true) {
    try {
      return ask(path, request, until, stop, read);
    } catch (const EtcdRefusal& refusal) {
      if (!refusal.is_lost_lease()) throw;
    }
    grant_lease(until, stop);
  }
}

void EtcdClient::grant_lease(Deadline until, const std::stop_token& stop) {
  try {
    ask(kGrantPath, grant_request(cluster_->lease(), cluster_->options().lease.count()), until,
        stop, is_answer);
  } catch (const EtcdRefusal& refusal) {
    if (!refusal.is_lease_held()) throw;
  }
}

void EtcdClient::renew_lease(Deadline until, const std::stop_token& stop) {
  try {
    if (!ask(kRenewalPath, renewal_request(cluster_->lease()), until, stop, is_renewed))
      grant_lease(until, stop);
  } catch (const std::exception&) {
    cluster_->return_renewal();
    throw;
  }
}

std::string EtcdClient::own_address() {
  const Deadline until = patience();
  std::string found;
  for (std::size_t member = 0; member < cluster_->members().size(); ++member) {
    try {
      post(kRangePath, presence_request(cluster_->folder()),
           std::min(cluster_->options().attempt, time_until(until)), {}, member);
    } catch (const std::exception&) {
      continue;
    }
    const std::scoped_lock lock(one_at_a_time_);
    const std::string address = http_.own_address();
    // By a member on this machine, other machines' ranks cannot be reached.
    if (!address.empty() && !is_loopback(address)) return address;
    if (found.empty()) found = address;
  }
  if (found.empty()) throw unreachable(*cluster_);
  return found;
}

void EtcdClient::put(const Write& write, const std::stop_token& stop) {
  ask_with_lease(kPutPath, put_request(whole(write.key), write.value, cluster_->lease()),
                 patience(), stop, is_answer);
}

void EtcdClient::throw_failure() {
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr))
    std::rethrow_exception(failure);
}

void EtcdClient::set(const std::string& key, const std::string& value) {
  if (value.size() > kLongestWritten)
    throw usage_error("write '" + key + "' to the ranks' store",
                      "at most " + std::to_string(kLongestWritten) + " bytes, since it is etcd",
                      std::to_string(value.size()), "a shorter text, or a tensor");
  std::unique_lock lock(mutex_);
  throw_failure();
  if (!writer_.joinable())
    writer_ = start_thread<std::jthread>([this](const std::stop_token& stop) { write_on(stop); });
  if (!writer_.joinable()) {
    lock.unlock();
    put({key, value}, {});
    return;
  }
  const bool is_followed = writes_.size() > (is_writing_ ? 1 : 0) && writes_.back().key == key;
  if (is_followed)
    writes_.back().value = value;
  else
    writes_.push_back({key, value});
  changed_.notify_all();
}

void EtcdClient::write_on(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !writes_.empty(); })) {
    is_writing_ = true;
    const Write write = writes_.front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      put(write, stop);
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    lock.lock();
    is_writing_ = false;
    writes_.pop_front();
    // Later values may depend on it.
    if (failure) writes_.clear();
    if (failure) failure_ = failure;
    changed_.notify_all();
  }
}

void EtcdClient::finish_writes(Deadline until) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, until, [&] { return writes_.empty(); }))
    throw unreachable(*cluster_);
  throw_failure();
}

bool EtcdClient::has(const std::string& key) {
  return ask_after_writes(kRangePath, presence_request(whole(key)), count_in) > 0;
}

std::optional<std::string> EtcdClient::get(const std::string& key) {
  try {
    std::optional<EtcdValue> found =
        ask_after_writes(kRangePath, range_request(whole(key)), value_in);
    if (!found || found->value.size() > kLongest) return std::nullopt;
    return std::move(found->value);
  } catch (const AnswerTooLong&) {
    return std::nullopt;
  }
}

/// If the answer is lost, the same request finds its own value there.
std::optional<std::string> EtcdClient::compare_set(const std::string& key,
                                                   const std::string& expected,
                                                   const std::string& value) {
  const Deadline until = patience();
  finish_writes(until);
  const std::optional<std::string> present =
      expected.empty() ? std::nullopt : std::optional(expected);
  try {
    Compared compared = ask_with_lease(
        kTransactionPath, compare_request(whole(key), present, value, cluster_->lease()), until, {},
        compared_in);
    if (compared.is_put) return value;
    if (!compared.found) return expected;
    if (compared.found->value.size() > kLongest) return std::nullopt;
    return std::move(compared.found->value);
  } catch (const AnswerTooLong&) {
    return std::nullopt;
  }
}

/// If an answer is lost, the mark shows whether its sum was written, and which one it was.
std::int64_t EtcdClient::add(const std::string& key, std::int64_t value) {
  const Deadline until = patience();
  finish_writes(until);
  const std::string mark = whole(key) + "/added/" + random_name();
  std::optional<EtcdValue> found = ask(kRangePath, range_request(whole(key)), until, {}, value_in);
  while (true) {
    const std::int64_t sum = counter_in(found, key) + value;
    Added added = ask_with_lease(kTransactionPath,
                                 add_request(whole(key), found ? found->revision : 0, mark,
                                             std::to_string(sum), cluster_->lease()),
                                 until, {}, added_in);
    if (added.is_put) return sum;
    if (added.mark) return counter_in(added.mark, key);
    found = std::move(added.found);
  }
}

bool EtcdClient::remove(const std::string& key) {
  return ask_after_writes(kDeletePath, delete_request(whole(key)), has_deleted);
}

std::int64_t EtcdClient::count(const std::string& folder) {
  return ask_after_writes(kRangePath, count_request(whole(folder)), count_in);
}

void EtcdClient::await_answer(Deadline until) {
  ask(kRangePath, presence_request(cluster_->folder()), until, {}, count_in);
}

}  // namespace accrue::distributed
