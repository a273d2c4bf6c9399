#include "distributed/group/rendezvous/roll_call.h"

#include <chrono>
#include <thread>
#include <utility>

#include "distributed/group/network/run_until.h"
#include "distributed/group/store/text_seal.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// How long rank 0 waits for the ranks that read why there is no start.
constexpr milliseconds kToReadWhy{2000};
constexpr milliseconds kLookAgain{20};
/// Precedes the reason in a ticket for a start that failed; it is in no name, whose digits are
/// hexadecimal.
constexpr char kNoStart = '-';

constexpr const char* kComplete = "complete";

}  // namespace

struct RollCall::Ticket {
  std::string process, start;

  std::string text() const { return process + ' ' + start; }
};

RollCall::RollCall(std::shared_ptr<StoreClient> client, int rank, int world,
                   const std::string& run_id)
    : client_(std::move(client)),
      folder_("accrue/roll/" + (run_id.empty() ? "" : "of " + run_id + "/")),
      rank_(rank),
      world_(world),
      name_(random_name()),
      start_(random_name()) {}

std::string RollCall::key(const char* topic, int rank) const {
  return folder_ + topic + '/' + std::to_string(rank);
}

std::optional<std::string> RollCall::read(const std::string& key) const {
  return client_->has(key) ? client_->get(key) : std::nullopt;
}

std::optional<std::string> RollCall::complete() const { return read(folder_ + kComplete); }

std::optional<RollCall::Ticket> RollCall::ticket(int rank) const {
  const std::optional<std::string> text = read(key("ticket", rank));
  const std::size_t gap = text ? text->find(' ') : std::string::npos;
  if (gap == std::string::npos) return std::nullopt;
  return Ticket{.process = text->substr(0, gap), .start = text->substr(gap + 1)};
}

/// The name of the process that came as `rank`; none if it is spent, by the last `complete`
/// start.
std::optional<std::string> RollCall::come(int rank,
                                          const std::optional<std::string>& complete) const {
  std::optional<std::string> name = read(key("name", rank));
  const std::optional<Ticket> last = name ? ticket(rank) : std::nullopt;
  const bool is_spent = last && last->process == *name && last->start == complete;
  return is_spent ? std::nullopt : name;
}

RollCall::Status RollCall::poll() {
  if (found_) return {.start = found_, .failure = {}};
  if (!std::exchange(has_come_, true)) client_->set(key("name", rank_), name_);
  Status status = rank_ == 0 ? call() : answer();
  found_ = status.start;
  return status;
}

RollCall::Status RollCall::call() {
  const std::optional<std::string> last = complete();
  std::vector<std::string> tickets;
  for (int rank = 1; rank < world_; ++rank) {
    const std::optional<std::string> name = come(rank, last);
    if (!name) return {};
    tickets.push_back(Ticket{.process = *name, .start = start_}.text());
  }
  for (int rank = 1; rank < world_; ++rank) {
    const std::string& text = tickets[static_cast<std::size_t>(rank - 1)];
    if (read(key("ticket", rank)) != text) client_->set(key("ticket", rank), text);
  }
  if (!all_answered(tickets)) return {};
  client_->set(key("ticket", rank_), Ticket{.process = name_, .start = start_}.text());
  client_->set(folder_ + kComplete, start_);
  return {.start = start_, .failure = {}};
}

/// `tickets` are those of rank 1 and all higher ones. An empty one needs no answer.
bool RollCall::all_answered(const std::vector<std::string>& tickets) const {
  for (int rank = 1; rank < world_; ++rank) {
    const std::string& text = tickets[static_cast<std::size_t>(rank - 1)];
    if (!text.empty() && read(key("answer", rank)) != text) return false;
  }
  return true;
}

RollCall::Status RollCall::answer() {
  const std::optional<Ticket> mine = ticket(rank_);
  if (!mine || mine->process != name_) return {};
  const std::string answer_key = key("answer", rank_);
  if (read(answer_key) != mine->text()) client_->set(answer_key, mine->text());
  if (mine->start.starts_with(kNoStart)) return {.start = {}, .failure = mine->start.substr(1)};
  if (complete() != mine->start) return {};
  return {.start = mine->start, .failure = {}};
}

std::vector<int> RollCall::missing() const {
  const std::optional<std::string> last = complete();
  std::vector<int> ranks;
  for (int rank = 0; rank < world_; ++rank)
    if (rank != rank_ && !come(rank, last)) ranks.push_back(rank);
  return ranks;
}

void RollCall::give_up(const std::string& reason) {
  if (rank_ != 0) return;
  const std::optional<std::string> last = complete();
  std::vector<std::string> tickets;
  for (int rank = 1; rank < world_; ++rank) {
    const std::optional<std::string> name = come(rank, last);
    std::string& text = tickets.emplace_back();
    if (!name) continue;
    text = Ticket{.process = *name, .start = kNoStart + reason}.text();
    client_->set(key("ticket", rank), text);
  }
  const Deadline until = from_now(kToReadWhy);
  while (!all_answered(tickets) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kLookAgain);
}

}  // namespace accrue::distributed
