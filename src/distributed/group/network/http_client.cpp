#include "distributed/group/network/http_client.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

/// libcurl, which is loaded for a run that needs it: linked, it would bring twenty libraries into
/// every program of accrue.
class Curl {
 public:
  Curl() {
    void* library = nullptr;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) refuse();
    load(library, "curl_easy_init", init);
    load(library, "curl_easy_cleanup", cleanup);
    load(library, "curl_easy_reset", reset);
    load(library, "curl_easy_setopt", set);
    load(library, "curl_easy_perform", perform);
    load(library, "curl_easy_getinfo", get);
    load(library, "curl_easy_strerror", error_text);
    load(library, "curl_slist_append", append);
    load(library, "curl_slist_free_all", free_all);
  }

  decltype(&::curl_easy_init) init = nullptr;
  decltype(&::curl_easy_cleanup) cleanup = nullptr;
  decltype(&::curl_easy_reset) reset = nullptr;
  decltype(&::curl_easy_setopt) set = nullptr;
  decltype(&::curl_easy_perform) perform = nullptr;
  decltype(&::curl_easy_getinfo) get = nullptr;
  decltype(&::curl_easy_strerror) error_text = nullptr;
  decltype(&::curl_slist_append) append = nullptr;
  decltype(&::curl_slist_free_all) free_all = nullptr;

 private:
  template <class Function>
  static void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr) refuse();
  }
  [[noreturn]] static void refuse() {
    const char* const reason = ::dlerror();
    throw usage_error("connect to the other ranks", "libcurl on this machine, for ACCRUE_STORE",
                      reason == nullptr ? "none" : reason,
                      "apt-get install libcurl4, or no ACCRUE_STORE");
  }
};

/// Loaded once, and kept.
const Curl& curl() {
  static const Curl loaded;
  return loaded;
}

struct Received {
  std::string body;
  bool is_too_long = false;
};

std::size_t receive(char* bytes, std::size_t size, std::size_t count, void* to) {
  auto& received = *static_cast<Received*>(to);
  received.is_too_long = received.body.size() + size * count > HttpClient::kLongest;
  if (received.is_too_long) return 0;  // ends the transfer
  received.body.append(bytes, size * count);
  return size * count;
}

/// Called at least once a second: a value other than 0 ends the transfer.
int is_stopped(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

struct FreeHeaders {
  void operator()(curl_slist* headers) const noexcept { curl().free_all(headers); }
};
using Headers = std::unique_ptr<curl_slist, FreeHeaders>;

/// Without a value, Expect is not sent: a long body would wait for an answer to it.
Headers headers_of_requests() {
  Headers headers(curl().append(nullptr, "Content-Type: application/json"));
  if (!headers || curl().append(headers.get(), "Expect:") == nullptr) throw std::bad_alloc();
  return headers;
}

}  // namespace

void HttpClient::End::operator()(void* connection) const noexcept { curl().cleanup(connection); }

HttpClient::HttpClient() : connection_(curl().init()) {
  if (!connection_) throw std::bad_alloc();
}

HttpClient::Answer HttpClient::post(const std::string& url, const std::string& body,
                                    std::chrono::milliseconds timeout,
                                    const std::stop_token& stop) {
  void* const connection = connection_.get();
  const Headers headers = headers_of_requests();
  const long most = static_cast<long>(std::max<std::chrono::milliseconds::rep>(1, timeout.count()));
  Received received;
  std::array<char, CURL_ERROR_SIZE> reason{};
  const auto set = curl().set;
  curl().reset(connection);  // what is open stays open
  set(connection, CURLOPT_URL, url.c_str());
  set(connection, CURLOPT_PROXY, "");  // members are in this network
  set(connection, CURLOPT_NOSIGNAL, 1L);
  set(connection, CURLOPT_TIMEOUT_MS, most);
  set(connection, CURLOPT_CONNECTTIMEOUT_MS, most);
  set(connection, CURLOPT_HTTPHEADER, headers.get());
  set(connection, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  set(connection, CURLOPT_POSTFIELDS, body.c_str());
  set(connection, CURLOPT_WRITEFUNCTION, &receive);
  set(connection, CURLOPT_WRITEDATA, &received);
  set(connection, CURLOPT_ERRORBUFFER, reason.data());
  set(connection, CURLOPT_NOPROGRESS, 0L);
  set(connection, CURLOPT_XFERINFOFUNCTION, &is_stopped);
  set(connection, CURLOPT_XFERINFODATA, &stop);
  const CURLcode code = curl().perform(connection);
  if (received.is_too_long) throw AnswerTooLong();
  if (code != CURLE_OK)
    throw std::runtime_error(reason[0] != '\0' ? reason.data() : curl().error_text(code));
  Answer answer{.body = std::move(received.body)};
  curl().get(connection, CURLINFO_RESPONSE_CODE, &answer.status);
  return answer;
}

std::string HttpClient::own_address() const {
  const char* address = nullptr;
  curl().get(connection_.get(), CURLINFO_LOCAL_IP, &address);
  return address == nullptr ? "" : address;
}

}  // namespace accrue::distributed
